// Package ledger writes down where the time of a request went: how much each
// step was given, how much it used, and how much of that was waiting. It is
// read after the fact, when somebody asks why nothing was left at the end.
//
//	ctx, entry := ledger.New(ctx, "checkout")
//	defer func() { entry.Close(err); slog.Info("request", "curfew", entry) }()
//	...
//	call := ledger.From(ctx).Call("inventory", left-slush)
//	call.Stage(ledger.PoolWait, waited)
//	err := send(ctx)
//	call.Done(err)
//
// There is one ledger for each request in each hop. It travels in the context,
// so code far below adds to it, and where there is none, adding does nothing.
// It holds names, figures and kinds, never the text of an error, and of a name
// nothing that looks like a password or a query.
package ledger
