// Package drivers holds the tests of curfewsql with real drivers, against real servers. It is a
// module of its own so that nobody's build depends on those drivers.
package drivers
