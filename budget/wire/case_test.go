package wire_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// What other systems did with a deadline on the wire, by the numbers of the project's
// list of cases.

// relative are the forms of the time left.
var relative = []wire.Form{wire.GRPC(), wire.YARPC(), wire.Millis("Connect-Timeout-Ms")}

func TestCase01_LessThanAMillisecondIsSentInNoForm(t *testing.T) {
	for _, f := range append(append(relative, instants(time.Minute)...), wire.Millis("A").ReverseZero()) {
		for _, left := range []time.Duration{700 * time.Microsecond, ms - 1, 1, 0} {
			value, ok := f.Format(left, time.Now())
			assert.False(t, ok, "%v: %v", f, left)
			assert.Empty(t, value)
		}
		_, ok := f.Format(ms, time.Now())
		assert.True(t, ok)
	}
}

func TestCase02_APastDeadlineIsNeitherSentNorRead(t *testing.T) {
	for _, f := range append(relative, instants(time.Minute)...) {
		_, ok := f.Format(-3*ms, time.Now())
		assert.False(t, ok, f)
	}
	_, err := wire.YARPC().Parse("-3", time.Now())
	assert.EqualError(t, err, `wire: malformed context-ttl-ms in Context-TTL-MS "-3": not a number of ASCII digits`)
}

func TestCase04And05_ZeroIsExpiredUnlessItIsReversed(t *testing.T) {
	for _, unit := range "HMSmun" {
		got, err := wire.GRPC().Parse("0"+string(unit), time.Now())
		require.NoError(t, err)
		assert.Equal(t, wire.Peer{Limited: true, Header: "grpc-timeout"}, got, "expired")
		got, err = wire.GRPC().ReverseZero().Parse("0"+string(unit), time.Now())
		require.NoError(t, err)
		assert.Equal(t, wire.Peer{}, got, "no limit")
		got, err = wire.GRPC().ReverseZero().ReverseZero().Parse("0"+string(unit), time.Now())
		require.NoError(t, err)
		assert.True(t, got.Limited, "reversed twice")
	}
	_, err := wire.GRPC().Parse("12345678901234567H", time.Now())
	assert.ErrorContains(t, err, "more than 8 digits")
}

func TestCase06_WhatIsAboveTheLocalMaximumIsClamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, err := wire.Read(func(string) []string { return []string{"8H"} }, time.Now(), wire.GRPC())
		require.NoError(t, err)
		ctx, cancel, err := budget.Enter(context.Background(), peer.Limit(budget.Within(3*time.Second).Named("local maximum")))
		defer cancel()
		require.NoError(t, err)
		left, _ := budget.Remaining(ctx)
		assert.Equal(t, 3*time.Second, left)
		<-ctx.Done()
		assert.ErrorContains(t, context.Cause(ctx), "limit local maximum 3s")
	})
}

// A limit that is made once, when the server starts, counts from each request.
func TestCase10_ALimitIsMeasuredPerRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := wire.Peer{Limited: true, Left: time.Second, Header: "grpc-timeout"}.Limit(budget.Within(time.Minute).Spent(ms))
		for range 3 {
			ctx, cancel, err := budget.Enter(context.Background(), limit)
			require.NoError(t, err)
			left, _ := budget.Remaining(ctx)
			assert.Equal(t, time.Second, left)
			cancel()
			time.Sleep(time.Hour)
		}
	})
}

// Whatever one side writes the other side reads, and it is what was meant: within
// what the form rounds off.
func TestCase24And25_EveryFormIsWrittenAsItIsRead(t *testing.T) {
	for _, f := range append(relative, instants(time.Minute)...) {
		now := time.UnixMilli(1_700_000_000_000)
		for left := ms; left < 100*24*time.Hour; left = left*3 + 1 {
			value, ok := f.Format(left, now)
			require.True(t, ok)
			got, err := f.Parse(value, now)
			require.NoError(t, err, "%v: %q", f, value)
			assert.True(t, got.Limited)
			assert.LessOrEqual(t, got.Left, left)
			// Of gRPC's eight digits at least five are used: above 99,999,999 ms it is seconds.
			assert.Less(t, left-got.Left, max(ms, left/100_000), "%v: %q", f, value)
		}
	}
}
