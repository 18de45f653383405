package scopetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
	"github.com/curfew-go/curfew/scope/scopetest"
)

// hedged asks for a price in a page, and asks again after 30 ms. The value is the
// number of the attempt.
func hedged(ctx context.Context) (winner int, err error) {
	return scope.RunValue(ctx, "page", budget.Within(time.Minute), func(ctx context.Context, _ *scope.Scope) (int, error) {
		return race.Hedge(ctx, "price", 30*time.Millisecond, func(ctx context.Context) (int, error) {
			select {
			case <-time.After(10 * time.Millisecond):
				return race.Attempt(ctx), nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		})
	})
}

func TestAnAttemptOfARaceMeetsAFault(t *testing.T) {
	for _, tt := range []struct {
		fault  *scopetest.Fault
		winner int
		took   time.Duration // of the page, which waits for the loser
	}{
		{scopetest.At("page/other", scopetest.Start).Deaf(1), 0, 10 * time.Millisecond},
		{scopetest.At("page/price", scopetest.Start).Deaf(500 * time.Millisecond), 1, 500 * time.Millisecond},
		{scopetest.At("page/price", scopetest.Start).Delay(500 * time.Millisecond), 1, 40 * time.Millisecond},
		{scopetest.At("page/price", scopetest.Start).Fail(errDown), 1, 10 * time.Millisecond},
		{scopetest.At("page/price", scopetest.Spawn).Fail(errDown), 1, 10 * time.Millisecond},
		{scopetest.At("page/price", scopetest.Start).Goexit(), 1, 10 * time.Millisecond},
		{scopetest.At("page/price", scopetest.Join).Fail(errDown), 0, 10 * time.Millisecond}, // its value was delivered
		{scopetest.At("page/price", scopetest.Join).Deaf(time.Second), 0, 1010 * time.Millisecond},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
				ctx := scopetest.Context(r)
				scopetest.Inject(ctx, tt.fault)
				began := time.Now()
				winner, err := hedged(ctx)
				require.NoError(t, err)
				assert.Equal(t, tt.winner, winner)
				assert.Equal(t, tt.took, time.Since(began))
				if tt.fault.Hits() == 0 {
					assert.Contains(t, tt.fault.String(), "other")
				} else {
					assert.Empty(t, r.end())
				}
			})
		})
	}
}

func TestAPanicAtAnAttemptIsThatOfTheAttempt(t *testing.T) {
	for _, p := range []scopetest.Point{scopetest.Start, scopetest.Join} {
		inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
			ctx := scopetest.Context(r)
			scopetest.Inject(ctx, scopetest.At("page/price", p).Panic("boom"))
			defer func() {
				pe, ok := recover().(*scope.PanicError)
				require.True(t, ok)
				assert.Equal(t, "page/price", pe.Task)
				assert.Equal(t, "boom", pe.Value)
				assert.Empty(t, r.end())
			}()
			_, _ = hedged(ctx)
		})
	}
}

func TestALoserThatDoesNotStopIsALeak(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		var line string
		running := make(chan struct{})
		runBeside(scopetest.Context(r), func(ctx context.Context, _ *scope.Scope) error {
			line = lineBelow(1)
			_, err := race.First(ctx, "price",
				func(context.Context) (int, error) { <-running; return 1, nil },
				func(context.Context) (int, error) { close(running); <-release; return 2, nil })
			return err
		})
		failures := r.end()
		require.Len(t, failures, 1)
		assert.Contains(t, failures[0], "scopetest: shop/price/1 still runs (straggler, 2s old), started at "+line)
	})
}
