package budget_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A gRPC library turns the end of a context into an error of its own, which has a
// code and a text and does not unwrap: the std sentinels are lost on the way. What
// follows does as google.golang.org/grpc/status does in FromContextError, so that
// the table of kinds is seen to fit it, and puts the cause back as an adapter would.

type statusError struct {
	code uint32
	text string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("rpc error: code = %d desc = %s", e.code, e.text)
}

const (
	codeCanceled         = 1
	codeUnknown          = 2
	codeDeadlineExceeded = 4
)

func fromContextError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &statusError{codeDeadlineExceeded, err.Error()}
	case errors.Is(err, context.Canceled):
		return &statusError{codeCanceled, err.Error()}
	}
	return &statusError{codeUnknown, err.Error()}
}

// call is a unary call that waits for its context, as such a library makes it: it
// looks at ctx.Err().
func call(ctx context.Context) error {
	<-ctx.Done()
	return fromContextError(ctx.Err())
}

// named is the wrapper: where the status says that the context ended, the error is
// why it did, with the status behind it.
func named(ctx context.Context, call func(context.Context) error) error {
	err := call(ctx)
	var status *statusError
	if !errors.As(err, &status) || ctx.Err() == nil {
		return err
	}
	return &calledError{status, context.Cause(ctx)}
}

type calledError struct {
	status *statusError
	cause  error
}

func (e *calledError) Error() string { return e.cause.Error() + " (" + e.status.Error() + ")" }

// The status comes first: As of a cause looks behind it, where a sibling's may be.
func (e *calledError) Unwrap() []error { return []error{e.status, e.cause} }
func (e *calledError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.cause, &t) && t.Timeout()
}

func TestAGRPCStyleWrapperNamesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := enter(t, context.Background(), budget.Within(2*time.Second).Named("route maximum"))
		ctx := enter(t, route, budget.Within(time.Hour).AtMost(300*ms, "peer header grpc-timeout").Named("method maximum"))
		err := named(ctx, call)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.ErrorContains(t, err, "limit peer header grpc-timeout 300ms < route maximum 2s")
		var status *statusError
		require.ErrorAs(t, err, &status)
		assert.Equal(t, budget.KindOf(err).GRPCCode(), status.code)
		assert.Equal(t, uint32(codeDeadlineExceeded), status.code)
	})
}

// A sibling that ran into a timeout of its own cancels me; that is no timeout of
// mine, in the text of the status, its code, and for errors.Is alike.
func TestAGRPCStyleWrapperDoesNotTakeASiblingsTimeoutForMine(t *testing.T) {
	for _, siblings := range []error{
		context.DeadlineExceeded,
		&statusError{codeDeadlineExceeded, "context deadline exceeded"},
		&budget.Cause{Kind: budget.DependencyTimeout, Phase: "connect", Err: context.DeadlineExceeded},
		fmt.Errorf("stock: %w", &calledError{&statusError{codeDeadlineExceeded, "stock"}, &budget.Cause{Kind: budget.DeadlineExceeded, Limit: "stock 1s"}}),
	} {
		var mine error
		_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
			s.Go("payment", func(ctx context.Context) error {
				mine = named(ctx, call)
				return mine
			})
			s.Go("stock", func(context.Context) error { return siblings })
			return nil
		})
		assert.ErrorIs(t, mine, context.Canceled)
		assert.NotErrorIs(t, mine, context.DeadlineExceeded, "%v", siblings)
		assert.Equal(t, budget.SiblingFailed, budget.KindOf(mine))
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, mine, &timeout)
		assert.False(t, timeout.Timeout())
		assert.ErrorContains(t, mine, "task stock")
		var status *statusError
		require.ErrorAs(t, mine, &status)
		assert.Equal(t, uint32(codeCanceled), status.code, "the first status found is mine")
	}
}

// A server turns any cause into a status of the code that its kind has, by the very
// rule by which others would.
func TestTheGRPCCodeOfAKindIsThatOfItsCause(t *testing.T) {
	for k := budget.None; k <= budget.Closed; k++ {
		sentinel := k.Sentinel()
		if sentinel == nil {
			continue
		}
		var status *statusError
		require.ErrorAs(t, fromContextError(fmt.Errorf("handler: %w", &budget.Cause{Kind: k, Err: errors.New("why")})), &status)
		assert.Equal(t, k.GRPCCode(), status.code, "%v", k)
	}
}
