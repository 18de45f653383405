// Package scopetest is the kit for testing code that runs in scopes: a context
// whose scopes must have ended when the test has, and faults that make a named
// task fail, panic, exit, dawdle or go deaf on command.
//
//	func TestPage(t *testing.T) {
//		ctx := scopetest.Context(t)
//		scopetest.Inject(ctx, scopetest.At("page/price", scopetest.Start).Fail(errDown))
//		page, err := Load(ctx)
//		...
//	}
//
// The check at the end of the test looks at the scopes opened below that context,
// and at nothing else: tests may run in parallel, and none is blamed for what
// another left behind. It names each task that still runs with its path, how it
// stands, its age, and the line of your code that started it, which is recorded
// below such a context only.
//
// Inside a testing/synctest bubble call Context with the bubble's own t. The check
// then waits on the bubble's clock, which takes no time, and a fault's delay is
// exact.
package scopetest
