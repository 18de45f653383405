package ctxnode_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// An end is one way in which a context ends, and how that must look from
// wherever the context has gone.
type end struct {
	name     string
	sentinel error
	kind     budget.Kind
	text     string // stands in the cause's text: which limit, who, why
	is       error  // what the cause matches besides the sentinel
	// with opens a context and hands over what ends it. For a deadline that is
	// nothing: it is soon.
	with func(t *testing.T, use func(ctx context.Context, end func()))
}

// soon is long enough for a request to arrive, most times. Nothing depends on
// it: an end that comes earlier must look the same.
const soon = 40 * time.Millisecond

func nothing() {}

var ends = []end{
	{
		name: "deadline", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit route maximum 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel, err := budget.Enter(context.Background(), budget.Within(soon).Named("route maximum"))
			require.NoError(t, err)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "deadline of a scope", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "scope order, limit route maximum 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(soon).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, nothing)
				return nil
			})
		},
	},
	{
		name: "deadline of a task", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "scope order/load, limit profile 40ms < route maximum 1h0m0s",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
				s.Limit(budget.Within(soon).Named("profile")).Go("load", func(ctx context.Context) error {
					use(ctx, nothing)
					return nil
				})
				return nil
			})
		},
	},
	{
		name: "deadline of a detached block", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit detached 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(time.Hour).Named("route maximum"))
			require.NoError(t, err)
			cancelOuter()
			ctx, cancel := budget.Detached(outer, soon)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "std parent's deadline", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit parent deadline",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel, err := budget.Enter(timed(t, context.Background(), soon), budget.Within(time.Hour).Named("route maximum"))
			require.NoError(t, err)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "std parent's deadline with a cause", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			parent, cancelParent := context.WithTimeoutCause(context.Background(), soon, errBoom)
			defer cancelParent()
			ctx, cancel, err := budget.Enter(parent, budget.Inherited())
			require.NoError(t, err)
			defer cancel()
			use(ctx, nothing)
		},
	},
	{
		name: "curfew parent's deadline", sentinel: context.DeadlineExceeded, kind: budget.DeadlineExceeded, text: "limit gateway 40ms",
		with: func(t *testing.T, use func(context.Context, func())) {
			outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(soon).Named("gateway"))
			require.NoError(t, err)
			defer cancelOuter()
			_ = scope.Run(context.WithValue(outer, key("span"), 1), "order", budget.Within(time.Hour).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, nothing)
				return nil
			})
		},
	},
	{
		name: "std parent cancelled", sentinel: context.Canceled, kind: budget.ParentCancelled, text: "parent cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			parent, cancelParent := context.WithCancel(context.Background())
			defer cancelParent()
			ctx, cancel, err := budget.Enter(parent, budget.Within(time.Hour))
			require.NoError(t, err)
			defer cancel()
			use(ctx, cancelParent)
		},
	},
	{
		name: "std parent cancelled with a cause", sentinel: context.Canceled, kind: budget.ParentCancelled, text: "parent cancelled: scope order: boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			parent, cancelParent := context.WithCancelCause(context.Background())
			defer cancelParent(nil)
			_ = scope.Run(parent, "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, func() { cancelParent(errBoom) })
				return nil
			})
		},
	},
	{
		name: "curfew parent cancelled", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			outer, cancelOuter, err := budget.Enter(context.Background(), budget.Within(time.Hour))
			require.NoError(t, err)
			defer cancelOuter()
			ctx, cancel, err := budget.Enter(context.WithValue(outer, key("span"), 1), budget.Within(time.Minute))
			require.NoError(t, err)
			defer cancel()
			use(ctx, cancelOuter)
		},
	},
	{
		name: "a sibling's failure", sentinel: context.Canceled, kind: budget.SiblingFailed, text: "sibling failed: scope order, task payment: boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				fail := make(chan struct{})
				s.Go("payment", func(context.Context) error { <-fail; return errBoom })
				s.Go("stock", func(ctx context.Context) error {
					use(ctx, sync.OnceFunc(func() { close(fail) }))
					return nil
				})
				return s.Wait()
			})
		},
	},
	{
		name: "a sibling's timeout", sentinel: context.Canceled, kind: budget.SiblingFailed, text: "sibling failed: scope order, task payment",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				s.Limit(budget.Within(soon)).Go("payment", func(ctx context.Context) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
				s.Go("stock", func(ctx context.Context) error { use(ctx, nothing); return nil })
				return s.Wait()
			})
		},
	},
	{
		name: "cancel", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
			require.NoError(t, err)
			defer cancel()
			use(ctx, cancel)
		},
	},
	{
		name: "scope cancelled", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled: scope order: boom", is: errBoom,
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, func() { s.Cancel(errBoom) })
				return nil
			})
		},
	},
	{
		name: "scope cancelled by a person", sentinel: context.Canceled, kind: budget.UserCancelled, text: "user cancelled: scope order",
		with: func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				use(ctx, func() { s.Cancel(&budget.Cause{Kind: budget.UserCancelled}) })
				return nil
			})
		},
	},
	{
		name: "detached block cancelled", sentinel: context.Canceled, kind: budget.Cancelled, text: "cancelled",
		with: func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel := budget.Detached(context.Background(), time.Hour)
			defer cancel()
			use(ctx, cancel)
		},
	},
}

// looksLike checks err, which somebody brought back because the context ended.
// When bare, it is what a package returns that knows no causes: ctx.Err().
func (e end) looksLike(t *testing.T, err error, bare bool) {
	t.Helper()
	require.Error(t, err)
	other := context.Canceled
	if e.sentinel == context.Canceled {
		other = context.DeadlineExceeded
	}
	assert.ErrorIs(t, err, e.sentinel)
	assert.NotErrorIs(t, err, other, "a deadline is never disguised as a cancel, nor the reverse")
	var timeout interface{ Timeout() bool }
	isTimeout := errors.As(err, &timeout) && timeout.Timeout()
	assert.Equal(t, e.sentinel == context.DeadlineExceeded, isTimeout, "Timeout(): %v", err)
	var uerr *url.Error
	if errors.As(err, &uerr) {
		assert.Equal(t, e.sentinel == context.DeadlineExceeded, uerr.Timeout())
	}
	if bare {
		return
	}
	assert.Equal(t, e.kind, budget.KindOf(err))
	assert.ErrorContains(t, err, e.text, "the limit's name, or who it was")
	if e.is != nil {
		assert.ErrorIs(t, err, e.is)
	}
	var netErr net.Error
	if assert.ErrorAs(t, err, &netErr) {
		assert.Equal(t, e.sentinel == context.DeadlineExceeded, netErr.Timeout())
	}
}

// forEachEnd runs f once for each end. f returns when the context has ended
// and it has what somebody brought back.
func forEachEnd(t *testing.T, f func(t *testing.T, e end, ctx context.Context, end func())) {
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			used := false
			e.with(t, func(ctx context.Context, end func()) {
				used = true
				f(t, e, ctx, end)
			})
			assert.True(t, used)
		})
	}
}
