// Package scope runs tasks in blocks that own them.
//
// A scope is a block of code. Everything it starts has ended when the block
// returns, and the whole block has a deadline:
//
//	page, err := scope.RunValue(ctx, "dashboard", budget.Within(800*time.Millisecond),
//		func(ctx context.Context, s *scope.Scope) (Page, error) {
//			profile := scope.Fork(s, "profile", loadProfile)
//			orders := scope.Fork(s.Limit(budget.Within(400*time.Millisecond)), "orders", loadOrders)
//			recs := scope.Fork(s.Optional(budget.Within(200*time.Millisecond)), "recommendations", loadRecs)
//			s.Cleanup("release-lock", unlock)
//			if err := s.Wait(); err != nil {
//				return Page{}, err
//			}
//			return render(profile.Value(), orders.Value(), recs.Or(nil), s.Missing()), nil
//		})
//
// For the plain cases there are forms of one call, [All], [Map], [Each] and
// [MapSeq], and package race for the first, a quorum, or a hedge.
//
// The rules, each of which holds at every interleaving:
//
//   - Run returns after the body, every task and every cleanup ended. There is
//     no Wait to forget; a return in the middle of the body cancels and joins.
//   - A limit is not optional. Without time to begin, the body never runs.
//   - The first failure is recorded, then everybody else is cancelled. Their
//     context's cause says which sibling failed, and looks like a cancellation,
//     never like an error of their own.
//   - What Run returns depends on what came back and on what first ended the
//     scope early, not on who was faster to report: see [Error].
//   - A nil error means done. A loop that stops because its context ended
//     returns context.Cause(ctx), else its scope takes the work for finished.
//   - A task's panic surfaces from Run as a [*PanicError] with the task's own
//     stack; when the body does not let Run get that far, the process dies with
//     that stack instead. It is never lost and never waits for ever.
//   - Cleanups run after the tasks, last registered first, each under a live,
//     bounded context.
//   - A task that does not obey the end of its context is reported, by name, line
//     and stack, a moment later. To go on without it is possible and has to be
//     asked for: see [Scope.SetStragglers].
//
// What differs from task to task is a setting on a handle, written where the task
// is started: [Scope.Limit], [Scope.Optional] for what the scope can do without,
// [Scope.Service] for what the others need until they have ended, [Scope.Restart],
// and [Scope.In] for the values of another context. What differs from scope to
// scope stands in the first lines of the body: [Scope.SetSlots],
// [Scope.SetKeepGoing], [Scope.SetStragglers], [Scope.SetPanicGrace].
//
// Work that no block waits for belongs to a [Root], one for each process, which
// also shows everything below it while it runs: [Root.WriteText].
//
// A task is given its context; use it, and not one from outside the block,
// which the scope cannot cancel.
package scope
