package ctxnode_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// patience bounds waits for what must happen; on a busy machine it may take a
// while, and a hang takes longer.
const patience = 30 * time.Second

// An ender brings about the end of a context in one way.
type ender struct {
	name string
	err  error
	kind budget.Kind
	// with opens a context, and calls use with it and with what ends it. The end
	// may come by itself a moment after start.
	with func(use func(ctx context.Context, end func()))
}

// moment is about as long as it takes to derive a few contexts.
func moment() time.Duration { return time.Duration(rand.Int64N(int64(60 * time.Microsecond))) }

var errBoom = errors.New("boom")

var enders = []ender{
	{"cancel", context.Canceled, budget.Cancelled, func(use func(context.Context, func())) {
		ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
		if err != nil {
			return
		}
		use(ctx, cancel)
	}},
	{"timer", context.DeadlineExceeded, budget.DeadlineExceeded, func(use func(context.Context, func())) {
		ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Microsecond+moment()))
		if err != nil {
			return
		}
		defer cancel()
		use(ctx, func() {})
	}},
	{"parent cancelled", context.Canceled, budget.Cancelled, func(use func(context.Context, func())) {
		parent, cancelParent, _ := budget.Enter(context.Background(), budget.Within(time.Hour))
		defer cancelParent()
		ctx, cancel, err := budget.Enter(context.WithValue(parent, key("a"), 1), budget.Within(time.Minute))
		if err != nil {
			return
		}
		defer cancel()
		use(ctx, cancelParent)
	}},
	{"parent timer", context.DeadlineExceeded, budget.DeadlineExceeded, func(use func(context.Context, func())) {
		parent, cancelParent, _ := budget.Enter(context.Background(), budget.Within(20*time.Microsecond+moment()))
		defer cancelParent()
		ctx, cancel, err := budget.Enter(parent, budget.Inherited())
		if err != nil {
			return
		}
		defer cancel()
		use(ctx, func() {})
	}},
	{"std parent cancelled", context.Canceled, budget.ParentCancelled, func(use func(context.Context, func())) {
		parent, cancelParent := context.WithCancelCause(context.Background())
		defer cancelParent(nil)
		ctx, cancel, err := budget.Enter(parent, budget.Within(time.Minute))
		if err != nil {
			return
		}
		defer cancel()
		use(ctx, func() { cancelParent(errBoom) })
	}},
	{"std parent timer", context.DeadlineExceeded, budget.DeadlineExceeded, func(use func(context.Context, func())) {
		parent, cancelParent := context.WithTimeout(context.Background(), 20*time.Microsecond+moment())
		defer cancelParent()
		ctx, cancel, err := budget.Enter(parent, budget.Within(time.Minute))
		if err != nil {
			return
		}
		defer cancel()
		use(ctx, func() {})
	}},
	{"sibling", context.Canceled, budget.SiblingFailed, func(use func(context.Context, func())) {
		_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			fail := make(chan struct{})
			s.Go("failing", func(context.Context) error { <-fail; return errBoom })
			s.Go("using", func(ctx context.Context) error {
				use(ctx, func() { close(fail) })
				return nil
			})
			return nil
		})
	}},
	{"scope cancelled", context.Canceled, budget.Cancelled, func(use func(context.Context, func())) {
		_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			use(ctx, func() { s.Cancel(errBoom) })
			return nil
		})
	}},
	{"scope closed", context.Canceled, budget.Closed, func(use func(context.Context, func())) {
		ended, used := make(chan struct{}), make(chan struct{})
		_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			go func() { // code that keeps a context although it must not
				defer close(used)
				use(ctx, func() { close(ended) })
			}()
			<-ended
			return nil
		})
		<-used
	}},
}
