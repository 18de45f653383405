// Package drivertest runs what curfew promises about databases against real
// servers through the drivers that people use. It is a module of its own, so
// that no user of curfew depends on those drivers, and it holds only tests.
package drivertest
