package scopetest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/scopetest"
)

func TestTheWorkOfARootIsCheckedToo(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		ctx := scopetest.Context(r)
		root := scopetest.Root(ctx, "app")
		root.SetTrace(&quiet)
		require.NoError(t, root.Go(ctx, "mail", budget.Within(time.Hour), deafTo(release)))
		line := lineBelow(-1)
		require.NoError(t, root.Serve("consume", func(ctx context.Context) error {
			return scope.Run(ctx, "message", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
				s.Go("store", deafTo(release))
				return nil
			})
		}))
		synctest.Wait()
		all := oneLine(r.end())
		assert.Contains(t, all, "scopetest: app/mail still runs (straggler, 2s old), started at "+line)
		assert.Contains(t, all, "scopetest: app/consume still runs")
		assert.Contains(t, all, "scopetest: app/consume/message/store still runs")
	})
}

func TestWorkOfARootThatObeysIsNoLeakAndTakesNoTime(t *testing.T) {
	for _, drained := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
			began := time.Now()
			ctx := scopetest.Context(r)
			root := scopetest.Root(ctx, "app")
			require.NoError(t, root.Go(ctx, "mail", budget.Within(time.Hour), func(context.Context) error { return nil }))
			require.NoError(t, root.Serve("consume", func(ctx context.Context) error {
				select {
				case <-scope.Stopping(ctx):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}))
			if !drained {
				require.NoError(t, root.Serve("knows-no-Stopping", obedient))
			} else {
				require.NoError(t, root.Drain(ctx))
			}
			assert.Empty(t, r.end())
			assert.Less(t, time.Since(began), 10*time.Millisecond)
		})
	}
}

func TestAFaultMeetsTheWorkOfARoot(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
		var failed error
		ctx := scopetest.Context(r)
		root := scopetest.Root(ctx, "app")
		root.SetTrace(&scope.Trace{TaskFailed: func(_, _ string, err error) { failed = err }})
		scopetest.Inject(root.Context(), scopetest.At("app/mail", scopetest.Start).Fail(errDown))
		require.NoError(t, root.Go(t.Context(), "mail", budget.Within(time.Hour), obedient))
		require.NoError(t, root.Drain(ctx))
		assert.Equal(t, errDown, failed)
		assert.Empty(t, r.end())
	})
}
