package budget_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
)

// The table of DESIGN.md, row by row, written out: what a kind means to the
// standard library, to HTTP and gRPC, to telemetry, and to who would try again.
func TestEachKindMeansWhatTheTableSays(t *testing.T) {
	const ( // gRPC codes by name
		ok               = 0
		cancelled        = 1
		unknown          = 2
		deadlineExceeded = 4
		unavailable      = 14
	)
	rows := []struct {
		kind     budget.Kind
		number   int // kinds are stored and compared by other versions: their order stays
		name     string
		sentinel error
		http     int
		grpc     uint32
		retry    budget.Retry
	}{
		{budget.None, 0, "none", nil, 200, ok, budget.RetryNo},
		{budget.Failed, 1, "failed", nil, 500, unknown, budget.RetryJudge},
		{budget.Cancelled, 2, "cancelled", context.Canceled, 500, cancelled, budget.RetryNo},
		{budget.UserCancelled, 3, "user_cancelled", context.Canceled, 409, cancelled, budget.RetryNo},
		{budget.ClientCancelled, 4, "client_cancelled", context.Canceled, 499, cancelled, budget.RetryNo},
		{budget.DeadlineExceeded, 5, "deadline_exceeded", context.DeadlineExceeded, 504, deadlineExceeded, budget.RetryNo},
		{budget.ExpiredOnArrival, 6, "expired_on_arrival", context.DeadlineExceeded, 503, deadlineExceeded, budget.RetryFresh},
		{budget.LocalBudgetRejected, 7, "local_budget_rejected", context.DeadlineExceeded, 503, deadlineExceeded, budget.RetryFresh},
		{budget.DependencyTimeout, 8, "dependency_timeout", nil, 504, deadlineExceeded, budget.RetryIfBudget},
		{budget.SiblingFailed, 9, "sibling_failed", context.Canceled, 500, cancelled, budget.RetryNo},
		{budget.RaceLost, 10, "race_lost", context.Canceled, 500, cancelled, budget.RetryNo},
		{budget.ParentCancelled, 11, "parent_cancelled", context.Canceled, 500, cancelled, budget.RetryNo},
		{budget.Overloaded, 12, "overloaded", nil, 503, unavailable, budget.RetryYes},
		{budget.Shutdown, 13, "shutdown", nil, 503, unavailable, budget.RetryYes},
		{budget.Closed, 14, "closed", context.Canceled, 500, cancelled, budget.RetryNo},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			assert.EqualValues(t, row.number, row.kind)
			assert.Equal(t, row.name, row.kind.String())
			assert.Equal(t, row.sentinel, row.kind.Sentinel())
			assert.Equal(t, row.http, row.kind.HTTPStatus())
			assert.Equal(t, row.grpc, row.kind.GRPCCode())
			assert.Equal(t, row.retry, row.kind.Retry())

			cause := &budget.Cause{Kind: row.kind}
			assert.Equal(t, row.sentinel == context.Canceled, errors.Is(cause, context.Canceled))
			assert.Equal(t, row.sentinel == context.DeadlineExceeded, errors.Is(cause, context.DeadlineExceeded))
			timeout := row.sentinel == context.DeadlineExceeded || row.kind == budget.DependencyTimeout
			assert.Equal(t, timeout, cause.Timeout())
			assert.Equal(t, timeout, cause.Temporary())
			assert.Equal(t, row.kind, budget.KindOf(cause))
		})
	}
	assert.Equal(t, "failed", budget.Kind(len(rows)).String(), "the table has a row that is not tested here")
}

// A number that is no kind, from another version or out of a bug, is a failure.
func TestAKindOutOfRangeIsAFailure(t *testing.T) {
	for _, k := range []budget.Kind{15, 100, 255} {
		assert.Equal(t, "failed", k.String())
		assert.NoError(t, k.Sentinel())
		assert.Equal(t, 500, k.HTTPStatus())
		assert.EqualValues(t, 2, k.GRPCCode())
		assert.Equal(t, budget.RetryJudge, k.Retry())
	}
}

// timeoutError is a network timeout as libraries make their own.
type timeoutError struct{ timeout bool }

func (e timeoutError) Error() string   { return "i/o" }
func (e timeoutError) Timeout() bool   { return e.timeout }
func (e timeoutError) Temporary() bool { return false }

func TestKindOfAnything(t *testing.T) {
	deadline := &budget.Cause{Kind: budget.DeadlineExceeded}
	sibling := &budget.Cause{Kind: budget.SiblingFailed, Err: context.DeadlineExceeded}
	rejected := &budget.Cause{Kind: budget.LocalBudgetRejected}
	for _, tt := range []struct {
		name string
		err  error
		want budget.Kind
	}{
		{"nil", nil, budget.None},
		{"anything", errors.New("boom"), budget.Failed},
		{"end of a file", io.EOF, budget.Failed},
		{"no deadline", budget.ErrNoDeadline, budget.Failed},
		{"handler aborted", http.ErrAbortHandler, budget.Failed},

		{"std deadline", context.DeadlineExceeded, budget.DeadlineExceeded},
		{"std cancel", context.Canceled, budget.Cancelled},
		{"wrapped std deadline", fmt.Errorf("load: %w", context.DeadlineExceeded), budget.DeadlineExceeded},
		{"wrapped std cancel", fmt.Errorf("load: %w", fmt.Errorf("query: %w", context.Canceled)), budget.Cancelled},
		{"std deadline in a url error", &url.Error{Op: "Get", URL: "http://a", Err: context.DeadlineExceeded}, budget.DeadlineExceeded},
		{"std cancel in a url error", &url.Error{Op: "Get", URL: "http://a", Err: context.Canceled}, budget.Cancelled},
		{"joined, deadline and failure", errors.Join(errors.New("boom"), context.DeadlineExceeded), budget.DeadlineExceeded},
		{"joined, cancel and deadline", errors.Join(context.Canceled, context.DeadlineExceeded), budget.DeadlineExceeded},

		{"cause", deadline, budget.DeadlineExceeded},
		{"wrapped cause", fmt.Errorf("load: %w", deadline), budget.DeadlineExceeded},
		{"cause in a url error", &url.Error{Op: "Get", URL: "http://a", Err: rejected}, budget.LocalBudgetRejected},
		{"cause in a net error", &net.OpError{Op: "dial", Err: deadline}, budget.DeadlineExceeded},
		{"joined, cause after a sentinel", errors.Join(context.Canceled, rejected), budget.LocalBudgetRejected},
		{"joined, two causes", errors.Join(rejected, deadline), budget.LocalBudgetRejected},
		{"a sibling's timeout is not mine", sibling, budget.SiblingFailed},
		{"wrapped twice, a sibling's timeout", fmt.Errorf("a: %w", fmt.Errorf("b: %w", sibling)), budget.SiblingFailed},
		{"cause behind a cause", &budget.Cause{Kind: budget.ExpiredOnArrival, Err: deadline}, budget.ExpiredOnArrival},

		{"os deadline", os.ErrDeadlineExceeded, budget.DependencyTimeout},
		{"wrapped os deadline", fmt.Errorf("read: %w", os.ErrDeadlineExceeded), budget.DependencyTimeout},
		{"os deadline in a net error", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, budget.DependencyTimeout},
		{"net timeout", timeoutError{true}, budget.DependencyTimeout},
		{"net error that is none", timeoutError{false}, budget.Failed},
		{"wrapped net timeout", fmt.Errorf("read: %w", timeoutError{true}), budget.DependencyTimeout},
		{"net timeout in a url error", &url.Error{Op: "Get", URL: "http://a", Err: timeoutError{true}}, budget.DependencyTimeout},
		{"wrapped net timeout in a url error", &url.Error{Op: "Get", URL: "http://a", Err: fmt.Errorf("proxy: %w", timeoutError{true})}, budget.DependencyTimeout},
		{"joined, refused and timed out", errors.Join(timeoutError{false}, timeoutError{true}), budget.DependencyTimeout},
		{"dns timeout", &net.DNSError{Err: "i/o timeout", IsTimeout: true}, budget.DependencyTimeout},
		{"dns failure", &net.DNSError{Err: "no such host", IsNotFound: true}, budget.Failed},
		{"refused in a url error", &url.Error{Op: "Get", URL: "http://a", Err: timeoutError{false}}, budget.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, budget.KindOf(tt.err))
		})
	}
}
