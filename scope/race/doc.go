// Package race runs several attempts at one answer and returns as soon as it is
// decided: the first good one, a quorum, or a hedge, which starts another attempt
// when the first is slow.
//
//	user, err := race.Hedge(ctx, "user", 30*time.Millisecond, func(ctx context.Context) (User, error) {
//		return db.User(ctx, id)
//	})
//
// The rules, each of which holds at every interleaving:
//
//   - An error does not beat a healthy attempt. A race fails when it cannot be
//     won any more, when an error is terminal, or when its context ends.
//   - The losers are cancelled, with a cause of kind race_lost, and nobody waits
//     for them: they are tasks of the innermost scope of ctx, whose Run and Wait
//     do. Their names begin with that of the race, and the scope measures how
//     long each took to stop: see scope.Stats and scope.Trace.
//   - Where ctx does not end with a scope, because there is none, because the
//     standard library has derived it with an end of its own, or in a service, a
//     cleanup or the work of a Root, nobody would wait for the losers, and so the
//     call does, before it returns: a loser that does not obey then holds it up.
//     Derive with budget.Enter, or open a scope, where that matters.
//   - Attempts stand in the tree, in traces and in causes under the race's name,
//     beside the task that called: give the race a name of its own.
//   - A value that is not returned to the caller is given to Config.Dispose, once:
//     that of an attempt that came too late, or all that a quorum had when it
//     failed.
//   - An attempt that panics fails the scope that owns it, as any task does.
//   - A race needs a deadline, that of ctx or Config.Limit, and does not begin
//     without.
//
// Policies compose as functions: an attempt may itself be a scope.All, a quorum or
// a hedge. See docs/composing.md.
package race
