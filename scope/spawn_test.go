package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// TestSpawnRacingJoin spawns at the very instant the owner joins: what is
// spawned is awaited, refused or skipped, and never lost.
func TestSpawnRacingJoin(t *testing.T) {
	const runs = 100_000
	const (
		awaited = iota
		refused
		skipped
		outcomes
	)
	// Who spawns, while the owner joins.
	spawners := map[string]func(s *scope.Scope, late func()) (start func()){
		// A task is awaited, and with it what it starts: a refusal is impossible.
		"a task": func(s *scope.Scope, late func()) func() {
			at := startLine(2)
			s.Go("spawner", func(context.Context) error { at(); late(); return nil })
			return at
		},
		// The last task ends, and the outsider spawns, both at once.
		"an outsider": func(s *scope.Scope, late func()) func() {
			at := startLine(3)
			s.Go("last", func(context.Context) error { at(); return nil })
			go func() { at(); late() }()
			return at
		},
		"an outsider, with no task left": func(_ *scope.Scope, late func()) func() {
			at := startLine(2)
			go func() { at(); late() }()
			return at
		},
	}
	// What the owner does at that instant.
	joins := map[string]func(context.Context, *scope.Scope) error{
		"returns": func(context.Context, *scope.Scope) error { return nil },
		"waits":   func(_ context.Context, s *scope.Scope) error { return s.Wait() },
		"cancels": func(_ context.Context, s *scope.Scope) error { s.Cancel(nil); return nil },
		"fails":   func(context.Context, *scope.Scope) error { return errJoin },
	}
	var all [outcomes]int
	base := runtime.NumGoroutine()
	for who, spawner := range spawners {
		for how, join := range joins {
			t.Run(who+" spawns as the owner "+how, func(t *testing.T) {
				var seen [outcomes]int
				for range stress.Rounds(runs) / (len(spawners) * len(joins)) {
					seen[spawnRacing(t, spawner, join)]++
				}
				t.Logf("%d awaited, %d refused, %d skipped", seen[awaited], seen[refused], seen[skipped])
				for i, n := range seen {
					all[i] += n
				}
				if who == "a task" {
					assert.Zero(t, seen[refused], "the scope cannot close before its task has ended")
				}
				if how == "returns" || how == "waits" {
					assert.Zero(t, seen[skipped], "nothing was cancelled")
				}
			})
		}
	}
	t.Logf("in all %d awaited, %d refused, %d skipped", all[awaited], all[refused], all[skipped])
	for i, n := range all {
		assert.NotZero(t, n, "outcome %d never came", i)
	}
	settle(t, base)
}

var errJoin = errors.New("the owner fails")

// spawnRacing runs one scope and reports what became of the late spawn.
func spawnRacing(t *testing.T, spawner func(*scope.Scope, func()) func(), join func(context.Context, *scope.Scope) error) (outcome int) {
	var ran, ended, wasSkipped atomic.Bool
	var panicked any
	tried := make(chan struct{})
	ctx := scope.WithTrace(context.Background(), &scope.Trace{TaskSkipped: func(_, _ string, cause error) {
		assert.Error(t, cause)
		wasSkipped.Store(true)
	}})
	var stats *scope.Scope
	err := scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		stats = s
		start := spawner(s, func() {
			defer close(tried)
			panicked = recovered(func() {
				s.Go("late", func(context.Context) error {
					ran.Store(true)
					runtime.Gosched()
					ended.Store(true)
					return nil
				})
			})
		})
		start()
		return join(ctx, s)
	})
	// Whatever ran has ended now, and Run's answer is final.
	endedFirst := ended.Load()
	<-tried
	switch {
	case panicked != nil:
		closed, ok := panicked.(error)
		require.True(t, ok && errors.Is(closed, scope.ErrClosed), "%v", panicked)
		require.ErrorContains(t, closed, `"late"`)
		require.False(t, ran.Load() || wasSkipped.Load(), "refused, and more")
		return 1
	case wasSkipped.Load():
		require.False(t, ran.Load(), "skipped, and run")
		require.Error(t, err)
		return 2
	}
	require.True(t, ran.Load(), "lost")
	require.True(t, endedFirst, "Run did not await it")
	require.Zero(t, stats.Stats().Live)
	return 0
}

// TestCase08_SpawnWhileTheOwnerJoins is the plain form: a child that spawns is
// awaited with what it spawned, an outsider after the last child is refused.
func TestCase08_SpawnWhileTheOwnerJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s1 *scope.Scope
		depth := 0
		var spawn func(context.Context) error
		spawn = func(context.Context) error {
			time.Sleep(time.Second)
			if depth++; depth < 5 {
				s1.Go(fmt.Sprint("child-", depth), spawn)
			}
			return nil
		}
		start := time.Now()
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
			s1 = s
			s.Go("child-0", spawn)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, 5*time.Second, time.Since(start), "each was awaited, although the body had returned")
		for verb, use := range map[string]func(){
			"Go":      func() { s1.Go("outsider", spawn) },
			"Fork":    func() { scope.Fork(s1, "outsider", instantly("")) },
			"Cleanup": func() { s1.Cleanup("outsider", spawn) },
		} {
			v, ok := recovered(use).(error)
			require.True(t, ok, verb)
			assert.ErrorIs(t, v, scope.ErrClosed)
			assert.ErrorContains(t, v, verb)
			assert.ErrorContains(t, v, `"outsider"`)
			assert.ErrorContains(t, v, `"shop"`)
		}
		assert.Equal(t, 5, depth, "nothing refused has run")
	})
}

// TestCase07_EarlyReturnCancelsAndJoins: a body that returns in the middle
// leaves nothing behind.
func TestCase07_EarlyReturnCancelsAndJoins(t *testing.T) {
	boom := errors.New("boom")
	for name, unwind := range map[string]func() error{
		"error":  func() error { return boom },
		"panic":  func() error { return explode(boom) },
		"Goexit": func() error { goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Int64
				start := time.Now()
				var err error
				var v any
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() {
						assert.EqualValues(t, 3, ended.Load(), "all have ended before anybody learns of it")
						v = recover()
					}()
					err = scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
						for i := range 3 {
							s.Go(fmt.Sprint("task-", i), func(ctx context.Context) error {
								defer ended.Add(1)
								<-ctx.Done()
								assert.Equal(t, budget.SiblingFailed, budget.KindOf(context.Cause(ctx)))
								time.Sleep(time.Duration(i) * time.Millisecond) // one after the other
								return context.Cause(ctx)
							})
						}
						return unwind()
					})
				}()
				<-done
				assert.Equal(t, 2*time.Millisecond, time.Since(start), "they were cancelled at once")
				switch name {
				case "error":
					assert.ErrorIs(t, err, boom)
					assert.NotErrorIs(t, err, context.Canceled)
				case "panic":
					assert.Equal(t, boom, v, "the body's own value, on its own stack")
				default:
					assert.Nil(t, v)
				}
			})
		})
	}
}
