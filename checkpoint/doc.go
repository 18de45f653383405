// Package checkpoint lets work that never blocks notice that it was cancelled:
// loops, iterators and readers that compute rather than wait.
//
//	p := checkpoint.New(ctx)
//	for i := range rows {
//		if err := p.Err(); err != nil {
//			return err // why ctx ended
//		}
//		score(rows[i])
//	}
//
// A [Point] is cheap enough for the innermost loop: to an empty one it adds less
// than a nanosecond a turn, and less than half of what ctx.Err() adds (BenchmarkTurn).
// Each turn it reads one word that the cancel itself sets, and about every
// microsecond the clock, so that it notices a deadline also when the timer behind ctx
// is late, because every processor computes.
//
// [Seq] puts a checkpoint into an iterator, so that a walk that was cut short
// cannot be taken for a whole one, and [Reader] into a reader.
//
// Jobs that outlive a process, or run on another machine than the one on which
// somebody cancels them, ask a durable [Source] by [Watch].
package checkpoint
