package curfewredis

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// bench is a link to a server that answers attempts and calls, or does not.
type bench struct {
	link
	attempts, calls         atomic.Int64
	connects, answers, wild atomic.Bool
}

// period makes a call, as a member does, and lets a period pass.
func (b *bench) period(ctx context.Context) error {
	defer time.Sleep(250 * time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	await := func(ctx context.Context, ok *atomic.Bool) error {
		if ok.Load() {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return b.link.call(ctx, func(ctx context.Context) error {
		b.attempts.Add(1)
		if b.wild.Load() {
			panic("a hook of the client")
		}
		return await(ctx, &b.connects)
	}, func(ctx context.Context) error {
		b.calls.Add(1)
		return await(ctx, &b.answers)
	})
}

func TestAttemptsToConnectBecomeRareAndEagerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		for range 3 {
			b.calls.Store(0)
			b.attempts.Store(0)
			for range 11 {
				assert.Error(t, b.period(t.Context()))
			}
			assert.EqualValues(t, 1, b.calls.Load(), "the one that found it out")
			assert.EqualValues(t, 11, b.attempts.Load(), "one each period")
			for range 40 {
				assert.Error(t, b.period(t.Context()))
			}
			assert.InDelta(t, 11+10, b.attempts.Load(), 4, "about one a second")
			assert.EqualValues(t, 1, b.calls.Load())
			b.connects.Store(true)
			b.answers.Store(true)
			periods := 1
			for b.period(t.Context()) != nil {
				periods++
			}
			assert.LessOrEqual(t, periods, 6, "a second and a half")
			b.connects.Store(false)
			b.answers.Store(false)
		}
		time.Sleep(2 * time.Second) // an attempt that runs ends by itself
	})
}

// A server that answers attempts in their time, and calls never in theirs.
func TestConnectionsForCallsThatAreNeverInTimeBecomeRareToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		b.connects.Store(true)
		for range 80 {
			assert.Error(t, b.period(t.Context()))
		}
		assert.LessOrEqual(t, b.attempts.Load(), int64(40))
		b.answers.Store(true)
		b.period(t.Context())
		time.Sleep(2 * time.Second)
		assert.NoError(t, b.period(t.Context()))
	})
}

func TestAPanicOfAnAttemptIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		b.wild.Store(true)
		assert.Error(t, b.period(t.Context()))
		assert.Positive(t, b.attempts.Load())
		b.answers.Store(true)
		assert.NoError(t, b.period(t.Context()), "a connection or none: the call finds out")
	})
}

func TestACallWithTimeMakesItsConnectionItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{}
		assert.Error(t, b.period(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.NoError(t, b.link.call(ctx, nil, func(context.Context) error { return nil }))
		time.Sleep(time.Second)
	})
}
