package checkpoint_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

type key string

func enter(t testing.TB, parent context.Context, limit budget.Limit) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel, err := budget.Enter(parent, limit)
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx, cancel
}

// turn asks p so often that it looks at the clock as rarely as it ever does.
func turn(t testing.TB, p *checkpoint.Point) {
	t.Helper()
	for range 100_000 {
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// An explicit cancel is seen at the first call after it, from whatever goroutine it
// came, and however rarely the clock is looked at.
func TestAnExplicitCancelIsSeenAtTheFirstCallAfterIt(t *testing.T) {
	for _, tt := range []struct {
		name string
		ctx  func(t *testing.T) (context.Context, context.CancelFunc)
	}{
		{"its own", func(t *testing.T) (context.Context, context.CancelFunc) {
			return enter(t, context.Background(), budget.Within(time.Hour))
		}},
		{"behind values", func(t *testing.T) (context.Context, context.CancelFunc) {
			ctx, cancel := enter(t, context.Background(), budget.Within(time.Hour))
			return context.WithValue(ctx, key("span"), 1), cancel
		}},
		{"of a parent", func(t *testing.T) (context.Context, context.CancelFunc) {
			ctx, cancel := enter(t, context.Background(), budget.Within(time.Hour))
			ctx, _ = enter(t, context.WithValue(ctx, key("span"), 1), budget.Within(time.Minute))
			return ctx, cancel
		}},
		{"detached", func(*testing.T) (context.Context, context.CancelFunc) {
			return budget.Detached(context.Background(), time.Hour)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 100 {
				ctx, cancel := tt.ctx(t)
				p := checkpoint.New(ctx)
				turn(t, p)
				cancelled := make(chan struct{})
				go func() {
					defer close(cancelled)
					cancel()
				}()
				<-cancelled
				err := p.Err()
				require.ErrorIs(t, err, context.Canceled, "the very first call")
				assert.Same(t, context.Cause(ctx), err)
				for range 3 {
					assert.Same(t, err, p.Err(), "and every other one")
				}
			}
		})
	}
}

// The end of a context that is not ours comes from another goroutine; once that has
// run, the next call sees it.
func TestTheEndOfAForeignContextIsSeen(t *testing.T) {
	boom := errors.New("boom")
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			p := checkpoint.New(ctx)
			turn(t, p)
			cancel(boom)
			synctest.Wait()
			assert.Same(t, boom, p.Err())
			assert.Same(t, boom, p.Err())
		})
	}
	// A std child of ours ends by itself, and does not end ours.
	ours, _ := enter(t, context.Background(), budget.Within(time.Hour))
	child, cancel := context.WithCancel(ours)
	p, outer := checkpoint.New(child), checkpoint.New(ours)
	turn(t, p)
	cancel()
	assert.Eventually(t, func() bool { return p.Err() != nil }, 10*time.Second, time.Microsecond)
	assert.NoError(t, outer.Err())
}

func TestAPointOfAContextThatHasEnded(t *testing.T) {
	ours, cancel := enter(t, context.Background(), budget.Within(time.Hour))
	cancel()
	std, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := budget.Enter(context.Background(), budget.Within(0))
	refused, _, _ := budget.Enter(context.Background(), budget.Within(0))
	for name, ctx := range map[string]context.Context{"ours": ours, "std": std, "refused": refused} {
		assert.Equal(t, context.Cause(ctx), checkpoint.New(ctx).Err(), name)
	}
	assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(err))
}

func TestABackgroundContextNeverEnds(t *testing.T) {
	p := checkpoint.New(context.Background())
	turn(t, p)
	assert.NoError(t, p.Err())
}

type lateTimer struct { // a context whose timer never comes
	context.Context
	deadline time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.deadline, true }

// A deadline is seen by the clock when nobody has told of it.
func TestADeadlineIsSeenByTheClockAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, cancel := context.WithCancel(context.Background())
		defer cancel()
		for name, ctx := range map[string]context.Context{
			"never done": context.Background(),
			"not done":   open,
			"wider":      func() context.Context { c, _ := enter(t, context.Background(), budget.Within(time.Hour)); return c }(),
		} {
			p := checkpoint.New(lateTimer{ctx, time.Now().Add(time.Second)})
			for range 99 {
				time.Sleep(10 * time.Millisecond)
				require.NoError(t, p.Err(), name)
			}
			time.Sleep(10 * time.Millisecond)
			err := p.Err()
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), name)
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			assert.ErrorContains(t, err, "limit parent deadline", name)
			assert.Equal(t, err, p.Err(), name)
			assert.Equal(t, 10*time.Millisecond, p.Gap(), name)
		}
	})
}

// Where the context is ours the clock ends it, for everybody who works under it.
func TestADeadlineSeenByTheClockEndsTheContext(t *testing.T) {
	seen := 0
	for range 200 {
		ctx, _ := enter(t, context.Background(), budget.Within(time.Millisecond).Named("route maximum"))
		other := checkpoint.New(ctx)
		p := checkpoint.New(ctx)
		for p.Err() == nil {
		}
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		require.Same(t, context.Cause(ctx), p.Err())
		require.Same(t, context.Cause(ctx), other.Err())
		require.ErrorContains(t, p.Err(), "limit route maximum 1ms")
		seen++
	}
	assert.Equal(t, 200, seen)
}

// Many loops under one context, ended at a random instant by several at once.
func TestManyPointsAgreeOnTheCause(t *testing.T) {
	for range 50 {
		ctx, cancel := enter(t, context.Background(), budget.Within(time.Millisecond))
		var mu sync.Mutex
		causes := map[error]int{}
		var loops sync.WaitGroup
		for range 8 {
			loops.Go(func() {
				p := checkpoint.New(ctx)
				for p.Err() == nil {
				}
				mu.Lock()
				defer mu.Unlock()
				causes[p.Err()]++
			})
		}
		loops.Go(cancel)
		loops.Wait()
		assert.Equal(t, map[error]int{context.Cause(ctx): 8}, causes)
	}
}

func TestGapIsTheSlowestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := checkpoint.New(context.Background())
		assert.Zero(t, p.Gap())
		for _, ms := range []int{1, 5, 2, 1} {
			time.Sleep(time.Duration(ms) * time.Millisecond)
			require.NoError(t, p.Err())
		}
		assert.Equal(t, 5*time.Millisecond, p.Gap())
	})
}

// What Err costs rests on this.
func TestErrIsInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no go command")
	}
	require.NoError(t, err, "%s", out)
	assert.True(t, strings.Contains(string(out), "can inline (*Point).Err\n"), "%s", out)
}

func TestMistakesPanicWithTheNameOfTheArgument(t *testing.T) {
	var src checkpoint.Memory
	var none context.Context
	for want, f := range map[string]func(){
		"checkpoint: New: nil context":                 func() { checkpoint.New(none) },
		"checkpoint: Seq: nil seq":                     func() { checkpoint.Seq[int](context.Background(), nil) },
		"checkpoint: Seq: nil context":                 func() { checkpoint.Seq(none, slices.Values([]int{})) },
		"checkpoint: Reader: nil context":              func() { checkpoint.Reader(none, nil) },
		"checkpoint: Reader: nil reader":               func() { checkpoint.Reader(context.Background(), nil) },
		"checkpoint: Watch: nil context":               func() { checkpoint.Watch(none, &src, "job", time.Second) },
		"checkpoint: Watch: nil source":                func() { checkpoint.Watch(context.Background(), nil, "job", time.Second) },
		"checkpoint: Watch: empty job":                 func() { checkpoint.Watch(context.Background(), &src, "", time.Second) },
		"checkpoint: Watch: every 0s is not positive":  func() { checkpoint.Watch(context.Background(), &src, "job", 0) },
		"checkpoint: Watch: every -1s is not positive": func() { checkpoint.Watch(context.Background(), &src, "job", -time.Second) },
	} {
		assert.PanicsWithValue(t, want, f)
	}
}
