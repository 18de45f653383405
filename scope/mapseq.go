package scope

import (
	"context"
	"fmt"
	"iter"
	"strconv"
)

// MapSeq is Map for a stream: it calls f for the elements of in as they come, at
// most width at once, each on a goroutine of its own, and yields the results in
// the order of in. It takes an element only when fewer than width results are
// still to be consumed, so a slow consumer holds back the producer, whose code
// runs on the consumer's goroutine: a result that is there is yielded when the
// next element comes, or the last one has.
//
// The scope is open while the sequence is ranged over. After a failure one last
// pair follows, with the zero value and the error of [Run]. To break out of the
// loop cancels what runs, and the loop is left once it has ended; a failure that
// comes then is not seen any more.
func MapSeq[In, Out any](ctx context.Context, name string, width int, in iter.Seq[In], f func(context.Context, In) (Out, error)) iter.Seq2[Out, error] {
	mustBeMap("MapSeq", name, width, f == nil)
	if in == nil {
		panic(fmt.Sprintf("scope: MapSeq(%q): nil sequence", name))
	}
	return func(yield func(Out, error) bool) {
		broken := false
		err := run(ctx, nil, name, &asCalled, ours, func(ctx context.Context, s *Scope) error {
			var queue []*Task[Out]
			yieldFirst := func() error {
				v, err := queue[0].Wait(ctx)
				queue = queue[1:]
				if err == nil && !yield(v, nil) {
					broken = true
					s.Cancel(nil)
				}
				return err
			}
			i := 0
			for item := range in {
				// Also what is there already: the producer may be slower than f.
				for len(queue) == width || len(queue) > 0 && queue[0].t.isDone() {
					if err := yieldFirst(); err != nil || broken {
						return err
					}
				}
				k := &Task[Out]{f: func(ctx context.Context) (Out, error) { return f(ctx, item) }}
				k.t.name, k.t.work = strconv.Itoa(i), writtenAt{k, f}
				s.spawn(&k.t, "MapSeq")
				queue = append(queue, k)
				i++
			}
			for len(queue) > 0 && !broken {
				if err := yieldFirst(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !broken {
			var zero Out
			yield(zero, err)
		}
	}
}

// A writtenAt is a work of ours that calls the caller's function fn.
type writtenAt struct {
	work
	fn any
}

func (w writtenAt) origin(*task) any { return w.fn }
