package budget_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
)

// What a sibling, or anything else behind a cause, ran into is not what the
// context ran into.
func TestASiblingsTimeoutNeverLooksLikeMine(t *testing.T) {
	for _, behind := range []error{
		context.DeadlineExceeded,
		fmt.Errorf("query: %w", context.DeadlineExceeded),
		&budget.Cause{Kind: budget.DeadlineExceeded},
		&budget.Cause{Kind: budget.SiblingFailed, Err: &budget.Cause{Kind: budget.DeadlineExceeded}},
		&url.Error{Op: "Get", URL: "http://a", Err: context.DeadlineExceeded},
		errors.Join(io.EOF, context.DeadlineExceeded),
	} {
		for _, wrap := range []func(error) error{
			func(err error) error { return err },
			func(err error) error { return fmt.Errorf("load: %w", err) },
			func(err error) error { return &url.Error{Op: "Get", URL: "http://a", Err: err} },
		} {
			err := wrap(&budget.Cause{Kind: budget.SiblingFailed, Task: "payment", Err: behind})
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, context.Canceled)
			var timeout interface{ Timeout() bool }
			require.ErrorAs(t, err, &timeout)
			assert.False(t, timeout.Timeout())
			assert.Equal(t, budget.SiblingFailed, budget.KindOf(err))
		}
	}
	// Nor a sibling's cancel, seen from work that ran out of time.
	err := &budget.Cause{Kind: budget.DeadlineExceeded, Err: context.Canceled}
	assert.NotErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// Everything but the two sentinels is looked for behind the cause.
func TestACauseForwardsEverythingElse(t *testing.T) {
	path := &os.PathError{Op: "open", Path: "/a", Err: os.ErrNotExist}
	c := &budget.Cause{Kind: budget.SiblingFailed, Err: fmt.Errorf("stock: %w", path)}
	assert.ErrorIs(t, c, os.ErrNotExist)
	assert.ErrorIs(t, c, path)
	assert.ErrorIs(t, c, c)
	var got *os.PathError
	require.ErrorAs(t, c, &got)
	assert.Same(t, path, got)
	assert.NotErrorIs(t, c, io.EOF)
	var op *net.OpError
	assert.False(t, errors.As(c, &op))

	inner := &budget.Cause{Kind: budget.DeadlineExceeded, Scope: "inner"}
	outer := &budget.Cause{Kind: budget.SiblingFailed, Err: inner}
	assert.ErrorIs(t, outer, inner, "a particular cause is found")
	var cause *budget.Cause
	require.ErrorAs(t, outer, &cause)
	assert.Same(t, outer, cause, "the first one")
}

func TestACauseHasNoUnwrap(t *testing.T) {
	var err error = &budget.Cause{Kind: budget.SiblingFailed, Err: io.EOF}
	assert.NoError(t, errors.Unwrap(err))
	_, ok := err.(interface{ Unwrap() error })
	assert.False(t, ok, "Unwrap would let errors.Is find a sibling's timeout")
	_, ok = err.(interface{ Unwrap() []error })
	assert.False(t, ok)
}

func TestACauseWithNothingBehindIt(t *testing.T) {
	c := &budget.Cause{}
	assert.Equal(t, "budget: none", c.Error())
	assert.NotErrorIs(t, c, io.EOF)
	assert.NotErrorIs(t, c, context.Canceled)
	assert.NotErrorIs(t, c, context.DeadlineExceeded)
	var op *net.OpError
	assert.False(t, errors.As(c, &op))
}

// net/http and many others ask for a net.Error.
func TestACauseIsANetError(t *testing.T) {
	var err error = &budget.Cause{Kind: budget.ExpiredOnArrival}
	var ne net.Error
	require.ErrorAs(t, fmt.Errorf("a: %w", err), &ne)
	assert.True(t, ne.Timeout())
	assert.True(t, (&url.Error{Op: "Get", URL: "http://a", Err: err}).Timeout())
	assert.False(t, (&url.Error{Op: "Get", URL: "http://a", Err: &budget.Cause{Kind: budget.Cancelled}}).Timeout())
}

func TestTheTextOfACauseSaysWhatRanOutAndWhere(t *testing.T) {
	for _, tt := range []struct {
		cause budget.Cause
		want  string
	}{
		{budget.Cause{Kind: budget.Cancelled}, "budget: cancelled"},
		{budget.Cause{Kind: budget.DeadlineExceeded, Limit: "peer header 300ms < route maximum 2s"}, "budget: deadline exceeded: limit peer header 300ms < route maximum 2s"},
		{budget.Cause{Kind: budget.DeadlineExceeded, Scope: "checkout/order", Limit: "route maximum 2s"}, "budget: deadline exceeded: scope checkout/order, limit route maximum 2s"},
		{budget.Cause{Kind: budget.SiblingFailed, Scope: "order", Task: "payment", Err: errors.New("declined")}, "budget: sibling failed: scope order, task payment: declined"},
		{budget.Cause{Kind: budget.DependencyTimeout, Phase: "connect", Err: errors.New("i/o timeout")}, "budget: dependency timeout: phase connect: i/o timeout"},
		{budget.Cause{Kind: budget.LocalBudgetRejected, Scope: "s", Task: "t", Phase: "p", Limit: "l", Err: io.EOF}, "budget: local budget rejected: scope s, task t, phase p, limit l: EOF"},
	} {
		assert.Equal(t, tt.want, tt.cause.Error())
		assert.Equal(t, 1, strings.Count(tt.cause.Error()+"\n", "\n"), "one line")
	}
}
