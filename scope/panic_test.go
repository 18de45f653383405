package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// explode panics from a function whose name a stack can show.
//
//go:noinline
func explode(v any) error { panic(v) }

// recovered runs f and returns what it panicked with.
func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// quiet is a context whose scopes keep panics in the returned function.
func quiet() (context.Context, func() []*scope.PanicError) {
	var mu sync.Mutex
	var seen []*scope.PanicError
	ctx := scope.WithTrace(context.Background(), &scope.Trace{TaskPanicked: func(pe *scope.PanicError) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, pe)
	}})
	return ctx, func() []*scope.PanicError {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func TestCase01_PanicReleasesTheBodyAndIsRaisedWithTheChildsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, seen := quiet()
		fed := make(chan int)
		start := time.Now()
		v := recovered(func() {
			scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.Go("feeder", func(context.Context) error { return explode("ouch") })
				select {
				case <-fed:
				case <-ctx.Done():
				}
				synctest.Wait() // siblings are cancelled first, the stack follows at once
				require.Len(t, seen(), 1, "the stack is emitted before the body has unwound")
				return context.Cause(ctx)
			})
		})
		pe, ok := v.(*scope.PanicError)
		require.True(t, ok, "%T", v)
		assert.Equal(t, "shop/feeder", pe.Task)
		assert.Equal(t, "ouch", pe.Value)
		assert.Contains(t, string(pe.Stack), "scope_test.explode")
		assert.Contains(t, pe.Error(), "scope_test.explode", "a dying process prints the stack")
		assert.Same(t, pe, seen()[0])
		assert.Zero(t, time.Since(start), "nobody waits for a grace")
	})
}

func TestCase04_PanicReleasesEverySiblingAndNamesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := quiet()
		released := make(chan error, 7)
		start := time.Now()
		v := recovered(func() {
			scope.Run(ctx, "pool", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				for i := range 7 {
					s.Go(fmt.Sprint("waits-", i), func(ctx context.Context) error {
						<-ctx.Done()
						released <- context.Cause(ctx)
						return context.Cause(ctx)
					})
				}
				synctest.Wait()
				s.Go("bad", func(context.Context) error { return explode("ouch") })
				return s.Wait()
			})
		})
		require.IsType(t, &scope.PanicError{}, v)
		assert.Zero(t, time.Since(start))
		for range 7 {
			var cause *budget.Cause
			require.ErrorAs(t, <-released, &cause)
			assert.Equal(t, budget.SiblingFailed, cause.Kind)
			assert.Equal(t, "bad", cause.Task)
		}
	})
}

func TestWaitReportsAPanicAsAFailure(t *testing.T) {
	ctx, _ := quiet()
	boom := errors.New("boom")
	v := recovered(func() {
		scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			bad := scope.Fork(s, "bad", func(context.Context) (int, error) { return 0, explode(boom) })
			err := s.Wait()
			var pe *scope.PanicError
			assert.ErrorAs(t, err, &pe)
			assert.ErrorIs(t, err, boom, "a panic with an error is found by that error")
			assert.Equal(t, budget.Failed, budget.KindOf(err))
			assert.NotContains(t, err.Error(), "goroutine ", "stacks stay out of error texts")
			_, err = bad.Wait(ctx)
			assert.ErrorIs(t, err, pe)
			return nil // swallowing the error does not swallow the panic
		})
	})
	assert.IsType(t, &scope.PanicError{}, v)
}

func TestEveryPanicIsReportedAndTheFirstIsRaised(t *testing.T) {
	ctx, seen := quiet()
	v := recovered(func() {
		scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			begun := make(chan struct{})
			for i := range 20 {
				s.Go(fmt.Sprint("bad-", i), func(ctx context.Context) error {
					<-begun
					if i > 0 {
						<-ctx.Done()
					}
					return explode(i)
				})
			}
			close(begun)
			return nil
		})
	})
	pe, ok := v.(*scope.PanicError)
	require.True(t, ok)
	assert.Equal(t, 0, pe.Value)
	assert.Len(t, seen(), 20)
}

func TestAPanicThroughNestedScopesKeepsItsPlaceAndIsReportedOnce(t *testing.T) {
	ctx, seen := quiet()
	v := recovered(func() {
		scope.Run(ctx, "outer", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("middle", func(ctx context.Context) error {
				return scope.Run(ctx, "inner", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
					s.Go("leaf", func(context.Context) error { return explode([]int{1}) }) // not comparable
					return nil
				})
			})
			return nil
		})
	})
	pe, ok := v.(*scope.PanicError)
	require.True(t, ok)
	assert.Equal(t, "outer/middle/inner/leaf", pe.Task)
	assert.Len(t, seen(), 1)
}

func TestABodysPanicCancelsJoinsCleansAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cleaned := false, false
		v := recovered(func() {
			scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.Cleanup("close", func(context.Context) error { cleaned = true; return nil })
				s.Go("waits", func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(100 * time.Millisecond)
					ended = true
					return context.Cause(ctx)
				})
				return explode("body")
			})
		})
		assert.Equal(t, "body", v, "the value is the body's own")
		assert.True(t, ended)
		assert.True(t, cleaned)
	})
}

func TestABodysPanicWinsOverATasks(t *testing.T) {
	ctx, seen := quiet()
	v := recovered(func() {
		scope.Run(ctx, "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("bad", func(context.Context) error { return explode("task") })
			<-ctx.Done()
			return explode("body")
		})
	})
	assert.Equal(t, "body", v)
	assert.Len(t, seen(), 1)
}

func TestCase03_GoexitOfATaskFailsItsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sibling error
		err := scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("sibling", func(ctx context.Context) error {
				<-ctx.Done()
				sibling = context.Cause(ctx)
				return sibling
			})
			synctest.Wait()
			s.Go("quits", func(context.Context) error {
				runtime.Goexit()
				return nil
			})
			return nil
		})
		require.ErrorIs(t, err, scope.ErrGoexit)
		assert.Contains(t, err.Error(), `task "quits"`)
		assert.ErrorIs(t, sibling, scope.ErrGoexit)
		assert.Equal(t, budget.SiblingFailed, budget.KindOf(sibling))
	})
}

func TestGoexitOfTheBodyJoinsThenExitsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, after := false, false
		done := make(chan struct{})
		go func() {
			defer close(done)
			scope.Run(t.Context(), "shop", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.Go("waits", func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(time.Minute) // longer than any grace: a Goexit waits
					ended = true
					return nil
				})
				runtime.Goexit()
				return nil
			})
			after = true
		}()
		<-done
		assert.True(t, ended)
		assert.False(t, after)
	})
}

// The rest is about processes that die. Each child program is run by this test
// binary itself, told by an environment variable.
