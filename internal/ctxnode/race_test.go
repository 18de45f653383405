package ctxnode_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
)

// An actor derives from ctx and asks it, over and over, until it has seen the
// end: so each race really has both sides.
type actor struct {
	rand    *rand.Rand
	count   *atomic.Int32 // of what all actors derived
	made    []derived
	before  int // derived while Err was nil
	after   int
	problem string
}

func (a *actor) act(ctx context.Context, want ender) {
	for ended := 0; ended < 2; {
		// Whoever sees an error sees Done closed, and a cause of the right kind.
		if err := ctx.Err(); err != nil {
			ended++
			select {
			case <-ctx.Done():
			default:
				a.problem = fmt.Sprintf("Err is %v while Done is open", err)
				return
			}
			if err != want.err {
				a.problem = fmt.Sprintf("Err is %v, not %v", err, want.err)
				return
			}
			if c, ok := context.Cause(ctx).(*budget.Cause); !ok || c.Kind != want.kind {
				a.problem = fmt.Sprintf("the cause is %v, not of kind %v", context.Cause(ctx), want.kind)
				return
			}
		}
		// Whoever sees Done closed sees an error and a cause.
		select {
		case <-ctx.Done():
			if ctx.Err() == nil {
				a.problem = "Done is closed while Err is nil"
				return
			}
			if context.Cause(ctx) == nil {
				a.problem = "Done is closed while Cause is nil"
				return
			}
		default:
		}
		_ = ctx.Value(key("none"))
		how := derivers[a.rand.IntN(len(derivers))]
		if a.before+a.after > kept && ended == 0 {
			// The end is late. Go on with what is quickly made and dropped.
			how = derivers[a.rand.IntN(cheap)]
			a.made[kept/2].stop()
			a.made = append(a.made[:kept/2], a.made[kept/2+1:]...)
			runtime.Gosched()
		}
		d := how.make(ctx)
		d.how = how.name
		a.count.Add(1)
		if ended == 0 {
			a.before++
		} else {
			a.after++
		}
		a.made = append(a.made, d)
	}
}

// kept is how many derived contexts an actor keeps while it waits for the end:
// the first half of them, and then the latest.
const kept = 8

// check waits for the end of all that a derived from ctx, which has ended.
func (a *actor) check(ctx context.Context, want ender) error {
	if a.problem != "" {
		return errors.New(a.problem)
	}
	cause := context.Cause(ctx)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for _, d := range a.made {
		if d.loose {
			if d.ctx.Err() != nil {
				return fmt.Errorf("%s: the end reached what had dropped it: %w", d.how, context.Cause(d.ctx))
			}
			d.stop()
			continue
		}
		select {
		case <-d.ctx.Done():
		case <-timeout.C:
			return fmt.Errorf("%s: derived context never ended", d.how)
		}
		if d.errs && d.ctx.Err() != want.err {
			return fmt.Errorf("%s: Err is %v, not %v", d.how, d.ctx.Err(), want.err)
		}
		got := context.Cause(d.ctx)
		switch {
		case d.cause && got != cause:
			return fmt.Errorf("%s: cause %p %v, not the parent's %p %v", d.how, got, got, cause, cause)
		case got != cause && budget.KindOf(got) != budget.ExpiredOnArrival:
			return fmt.Errorf("%s: cause %v, not the parent's %v", d.how, got, cause)
		case got != cause && want.kind != budget.DeadlineExceeded:
			return fmt.Errorf("%s: expired below a parent that was cancelled: %v", d.how, got)
		case !errors.Is(got, want.err):
			return fmt.Errorf("%s: cause %v does not match %v", d.how, got, want.err)
		}
		if d.result != nil {
			select {
			case err := <-resultOf(d):
				if !errors.Is(err, want.err) {
					return fmt.Errorf("%s: returned %v, which does not match %v", d.how, err, want.err)
				}
			case <-timeout.C:
				return fmt.Errorf("%s: never returned", d.how)
			}
		}
		d.stop()
	}
	return nil
}

// The end of a context, in each way, races with deriving from it, in each way.
// Afterwards every child has ended with the right error and cause.
func TestEndRacesDerive(t *testing.T) {
	races := stress.Rounds(20_000)
	if testing.Short() {
		races = 1_000
	}
	const actors = 2
	type hits struct{ before, after int }
	perEnder := map[string]*hits{}
	perChild := map[string]int{}
	before := runtime.NumGoroutine()
	for i := range races {
		end := enders[i%len(enders)]
		if perEnder[end.name] == nil {
			perEnder[end.name] = &hits{}
		}
		end.with(func(ctx context.Context, do func()) {
			if i/len(enders)%2 == 0 {
				ctx.Done() // asked before the race, or first in it
			}
			var ready, count atomic.Int32
			var wg sync.WaitGroup
			all := make([]*actor, actors)
			for k := range all {
				a := &actor{rand: rand.New(rand.NewPCG(uint64(i), uint64(k))), count: &count}
				all[k] = a
				wg.Go(func() {
					ready.Add(1)
					for ready.Load() <= actors { // the barrier: all start at once
						runtime.Gosched()
					}
					a.act(ctx, end)
				})
			}
			for ready.Load() < actors {
				runtime.Gosched()
			}
			ready.Add(1)
			// In the middle of it, at some instant.
			for first := int32(rand.IntN(3 * kept)); count.Load() < first && ctx.Err() == nil; {
				runtime.Gosched()
			}
			do()
			wg.Wait()
			for _, a := range all {
				if err := a.check(ctx, end); err != nil {
					t.Errorf("race %d, ended by %s: %v", i, end.name, err)
				}
				perEnder[end.name].before += a.before
				perEnder[end.name].after += a.after
				for _, d := range a.made {
					perChild[d.how]++
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	report(t, "ended by", len(perEnder), func(add func(string)) {
		for name, h := range perEnder {
			require.NotZero(t, h.before, "%s: nothing was derived before the end", name)
			require.NotZero(t, h.after, "%s: nothing was derived after the end", name)
			add(fmt.Sprintf("%s %d/%d", name, h.before, h.after))
		}
	})
	report(t, "derived", len(derivers), func(add func(string)) {
		for _, d := range derivers {
			require.NotZero(t, perChild[d.name], "%s: never raced", d.name)
			add(fmt.Sprintf("%s %d", d.name, perChild[d.name]))
		}
	})
	goroutinesAreBackTo(t, before)
}

// report logs how often each outcome occurred.
func report(t *testing.T, what string, n int, fill func(add func(string))) {
	lines := make([]string, 0, n)
	fill(func(s string) { lines = append(lines, s) })
	sort.Strings(lines)
	t.Logf("%s (before/after the end): %s", what, strings.Join(lines, ", "))
}

// goroutinesAreBackTo waits until no more goroutines run than before.
func goroutinesAreBackTo(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}
