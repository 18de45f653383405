// Package budget says how long work may take, and why it ended.
//
// A timeout bounds one hop; a deadline bounds a request. Set one at the edge
// from the objective that users see, and only tighten it on the way down:
//
//	ctx, cancel, err := budget.Enter(ctx, budget.Within(3*time.Second).Named("checkout"))
//	if err != nil {
//		return err // nothing left: no work was done
//	}
//	defer cancel()
//
// A [Limit] is a wish, made anywhere and any time before; it turns into a
// deadline when work is entered. The deadline of the work is
//
//	min(parent's deadline, limit) − reserve − cleanup
//
// on the monotonic clock. A child never extends it. Most code does not call
// [Enter] itself: scope.Run and the adapters do.
//
// A [Var] is a limit that operators change while the program runs, and
// [Limit.AtMost] caps a limit at what a peer asked for. Causes name all of it, as
// in "peer header 300ms < route maximum 5s (was 2s) < gateway 10s".
//
// When a context ends, context.Cause answers a [*Cause]: its kind, the limits
// that led to the deadline with the one that fired first, the scope and the
// task. [KindOf] classifies any error, and each [Kind] knows its HTTP status,
// its gRPC code and whether a caller may try again.
//
// The one way to outlive a request, or to shield a critical section from its
// end, is [Detached], which demands a bound of its own.
package budget
