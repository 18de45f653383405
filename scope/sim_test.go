package scope_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// A waiting is one place where the library waits. f is called in a bubble with a
// deadline an hour away and returns once the wait is over, after took.
type waiting struct {
	name string
	took time.Duration // 0: drawn at random, at least a minute
	f    func(t *testing.T, ctx context.Context)
}

// in opens a scope that lasts as long as ctx, and wants it to go well.
func in(t *testing.T, ctx context.Context, body func(context.Context, *scope.Scope) error) {
	assert.NoError(t, scope.Run(ctx, "wait", budget.Inherited(), body))
}

// lasting is a task that takes d, and would obey.
func lasting(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func valueAfter(d time.Duration) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) { return 1, lasting(d)(ctx) }
}

func mapped(ctx context.Context, d time.Duration) (int, error) { return valueAfter(d)(ctx) }

const halfHour = 30 * time.Minute

var waitings = []waiting{
	{"Go, on full slots", 40 * time.Minute, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(_ context.Context, s *scope.Scope) error {
			s.SetSlots(1)
			s.Go("first", lasting(halfHour))
			s.Go("second", lasting(10*time.Minute)) // waits for the slot here
			return nil
		})
	}},
	{"Scope.Wait", halfHour, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(_ context.Context, s *scope.Scope) error {
			s.Go("task", lasting(halfHour))
			return s.Wait()
		})
	}},
	{"Scope.Wait, of a task that lends its slot", 40 * time.Minute, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(_ context.Context, s *scope.Scope) error {
			s.SetSlots(1)
			s.Go("outer", func(ctx context.Context) error {
				return scope.Run(ctx, "nested", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
					s.Go("a", lasting(halfHour))
					s.Go("b", lasting(10*time.Minute))
					return s.Wait()
				})
			})
			return nil
		})
	}},
	{"Task.Wait", halfHour, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(ctx context.Context, s *scope.Scope) error {
			_, err := scope.Fork(s, "task", valueAfter(halfHour)).Wait(ctx)
			return err
		})
	}},
	{"Task.Wait, under a shorter context", 10 * time.Minute, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(ctx context.Context, s *scope.Scope) error {
			task := scope.Fork(s.Optional(budget.Within(halfHour)), "task", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
			shorter, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			_, err := task.Wait(shorter)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			s.Cancel(nil)
			return nil
		})
	}},
	{"Run's join", halfHour, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(_ context.Context, s *scope.Scope) error { s.Go("task", lasting(halfHour)); return nil })
	}},
	{"Run's join, of a service that is told to end", 40 * time.Minute, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(_ context.Context, s *scope.Scope) error {
			s.Service().Go("service", func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(10 * time.Minute)
				return nil
			})
			s.Go("task", lasting(halfHour))
			return nil
		})
	}},
	{"Start", halfHour, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(_ context.Context, s *scope.Scope) error {
			_, err := scope.Start(s, "server", func(ctx context.Context, ready func(int)) error {
				defer ready(1)
				return lasting(halfHour)(ctx)
			})
			return err
		})
	}},
	{"All", halfHour, func(t *testing.T, ctx context.Context) {
		_, err := scope.All(ctx, "all", valueAfter(halfHour), valueAfter(time.Minute))
		assert.NoError(t, err)
	}},
	{"Map, at its width", 40 * time.Minute, func(t *testing.T, ctx context.Context) {
		_, err := scope.Map(ctx, "map", 2, []time.Duration{halfHour, halfHour, 10 * time.Minute}, mapped)
		assert.NoError(t, err)
	}},
	{"Map, on full slots", 50 * time.Minute, func(t *testing.T, ctx context.Context) {
		in(t, ctx, func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(1)
			s.Go("task", lasting(halfHour))
			_, err := scope.Map(ctx, "map", 2, []time.Duration{10 * time.Minute, 10 * time.Minute}, mapped)
			return err
		})
	}},
	{"MapSeq, of slow work and a slow consumer", 50 * time.Minute, func(t *testing.T, ctx context.Context) {
		in := slices.Values([]time.Duration{10 * time.Minute, halfHour, time.Minute})
		for _, err := range scope.MapSeq(ctx, "seq", 2, in, mapped) {
			assert.NoError(t, err)
			<-time.After(10 * time.Minute)
		}
	}},
	{"Drain", halfHour, func(t *testing.T, ctx context.Context) {
		root := scope.NewRoot("app")
		require.NoError(t, root.Serve("server", stoppingAfter(halfHour)))
		assert.NoError(t, root.Drain(ctx))
	}},
	{"Drain, of work that obeys a cancel alone", 48 * time.Minute, func(t *testing.T, ctx context.Context) {
		root := scope.NewRoot("app")
		require.NoError(t, root.Serve("server", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }))
		assert.NoError(t, root.Drain(ctx), "four fifths of the hour, then the cancel")
	}},
	{"DrainAfter", 25 * time.Minute, func(t *testing.T, ctx context.Context) {
		signal, cancel := context.WithTimeout(ctx, 20*time.Minute)
		defer cancel()
		root := scope.NewRoot("app")
		require.NoError(t, root.Serve("server", stoppingAfter(5*time.Minute)))
		assert.NoError(t, root.DrainAfter(signal, halfHour))
	}},
	{"a cleanup", 20 * time.Minute, func(t *testing.T, ctx context.Context) {
		assert.NoError(t, scope.Run(ctx, "wait", budget.Inherited().Cleanup(halfHour), func(_ context.Context, s *scope.Scope) error {
			s.Cleanup("unlock", func(context.Context) error { <-time.After(20 * time.Minute); return nil })
			return nil
		}))
	}},
	{"the bound of a deaf cleanup", 10*time.Minute + 10*time.Millisecond, func(t *testing.T, ctx context.Context) {
		err := scope.Run(quietly(ctx), "wait", budget.Inherited().Cleanup(10*time.Minute), func(_ context.Context, s *scope.Scope) error {
			s.Cleanup("unlock", func(context.Context) error { <-time.After(halfHour); return nil })
			return nil
		})
		assert.ErrorIs(t, err, scope.ErrCleanupTimeout)
	}},
	{"a straggler's grace", halfHour, func(t *testing.T, ctx context.Context) {
		err := scope.Run(quietly(ctx), "wait", budget.Within(10*time.Minute), func(_ context.Context, s *scope.Scope) error {
			s.SetStragglers(20*time.Minute, scope.Abandon)
			s.Go("deaf", func(context.Context) error { <-time.After(50 * time.Minute); return nil })
			return nil
		})
		assert.ErrorIs(t, err, scope.ErrAbandoned)
	}},
	{"a panicked task's grace", 20 * time.Minute, func(t *testing.T, ctx context.Context) {
		assert.Panics(t, func() {
			_ = scope.Run(quietly(ctx), "wait", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.SetPanicGrace(halfHour)
				s.Go("task", func(context.Context) error { panic("boom") })
				<-time.After(20 * time.Minute)
				return nil
			})
		})
	}},
	{"a panicked body's tasks", 20 * time.Minute, func(t *testing.T, ctx context.Context) {
		assert.PanicsWithValue(t, "boom", func() {
			_ = scope.Run(quietly(ctx), "wait", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.SetPanicGrace(halfHour)
				s.Go("task", func(context.Context) error { <-time.After(20 * time.Minute); return nil })
				panic("boom")
			})
		})
	}},
	{"a restart's back-off", 0, func(t *testing.T, ctx context.Context) {
		failures := 0
		in(t, quietly(ctx), func(_ context.Context, s *scope.Scope) error {
			s.Restart(scope.Backoff{First: 5 * time.Minute, Max: 10 * time.Minute}).Go("task", func(ctx context.Context) error {
				if failures++; failures > 4 {
					return nil
				}
				if failures == 1 {
					<-time.After(time.Minute)
				}
				return errors.New("not yet")
			})
			return nil
		})
	}},
}

// stoppingAfter serves until it is told to stop, and takes d for that.
func stoppingAfter(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		<-scope.Stopping(ctx)
		<-time.After(d)
		return nil
	}
}

// quietly takes what the waits report as they should.
func quietly(ctx context.Context) context.Context {
	return scope.WithTrace(ctx, &scope.Trace{
		Straggler:         func(scope.Straggler) {},
		CleanupLeftBehind: func(string, string, time.Duration) {},
		TaskPanicked:      func(*scope.PanicError) {},
		TaskRestarted:     func(string, string, error, time.Duration) {},
	})
}

func (w waiting) run(t *testing.T) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	w.f(t, ctx)
	if took := time.Since(began); w.took > 0 {
		assert.Equal(t, w.took, took, w.name)
	} else {
		assert.GreaterOrEqual(t, took, time.Minute, w.name)
		assert.Less(t, took, time.Hour, w.name)
	}
}

// A wait that a bubble does not see, such as one for a mutex held meanwhile, stops
// the fake clock.
func TestCase59_EveryWaitOfAnHourTakesUnderASecond(t *testing.T) {
	for _, w := range waitings {
		t.Run(w.name, func(t *testing.T) {
			real := time.Now()
			synctest.Test(t, func(t *testing.T) {
				w.run(t)
				<-time.After(time.Hour) // what it left behind on purpose ends, too
			})
			assert.Less(t, time.Since(real), time.Second)
		})
	}
}

// The same with all of them at once, many times over, so that the locks are
// contended.
func TestAllWaitsAtOnceLetTheClockRun(t *testing.T) {
	real := time.Now()
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		for range stress.Rounds(4) {
			for _, w := range waitings {
				all.Go(func() { w.run(t) })
			}
		}
		all.Wait()
		<-time.After(time.Hour)
	})
	assert.Less(t, time.Since(real), time.Duration(stress.Rounds(10))*time.Second)
}

// Tasks that wait for something, long and within their deadline, are healthy.
func TestCase61_TenThousandParkedTasksGiveNoWarning(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tasks  int
		parked time.Duration
		warns  bool
	}{
		{"within the deadline", 10_000, 59 * time.Minute, false},
		{"within the grace after it", 100, time.Hour + 50*time.Millisecond, false},
		{"the control, beyond both", 100, time.Hour + 200*time.Millisecond, true},
	} {
		for _, traced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, trace %v", tt.name, traced), func(t *testing.T) {
				var warnings atomic.Int64
				old := slog.Default()
				slog.SetDefault(slog.New(counting{&warnings}))
				defer slog.SetDefault(old)
				synctest.Test(t, func(t *testing.T) {
					ctx := context.Background()
					if traced {
						ctx = scope.WithTrace(ctx, &scope.Trace{Straggler: func(scope.Straggler) { warnings.Add(1) }})
					}
					release := make(chan struct{})
					time.AfterFunc(tt.parked, func() { close(release) })
					var st scope.Stats
					err := scope.Run(ctx, "parked", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
						for range tt.tasks {
							s.Go("task", func(context.Context) error { <-release; return nil })
						}
						err := s.Wait()
						st = s.Stats()
						return err
					})
					assert.NoError(t, err)
					assert.Equal(t, tt.tasks, st.Started)
				})
				assert.Equal(t, tt.warns, warnings.Load() > 0, "%d warnings", warnings.Load())
			})
		}
	}
}

// A counting handler counts records.
type counting struct{ n *atomic.Int64 }

func (c counting) Enabled(context.Context, slog.Level) bool  { return true }
func (c counting) Handle(context.Context, slog.Record) error { c.n.Add(1); return nil }
func (c counting) WithAttrs([]slog.Attr) slog.Handler        { return c }
func (c counting) WithGroup(string) slog.Handler             { return c }
