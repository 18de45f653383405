// Package scopetest is the kit for testing code that runs in scopes: tasks that
// fail, panic, overstay or ignore their cancel on command, and checks that
// nothing was left running.
//
// Nothing is exported yet.
package scopetest
