package retrybudget_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
)

func TestBadCallsPanicAndNameTheArgument(t *testing.T) {
	ok := func(context.Context) error { return nil }
	with := func(c retrybudget.Config) func() { return func() { retrybudget.New("target", c) } }
	do := func(p retrybudget.Policy) func() {
		return func() { _ = retrybudget.Do(context.Background(), retrybudget.Unlimited(), p, ok) }
	}
	var missing *retrybudget.Budget
	var noCtx context.Context
	const isNil = ": nil *Budget; Unlimited() is the one without a cap"
	for text, f := range map[string]func(){
		"New: empty target":                             func() { retrybudget.New("", retrybudget.Config{}) },
		"New: Ratio 1001 is above 1000":                 with(retrybudget.Config{Ratio: 1001}),
		"New: Ratio NaN is above 1000":                  with(retrybudget.Config{Ratio: math.NaN()}),
		"New: PerSecond +Inf is above 10000":            with(retrybudget.Config{PerSecond: math.Inf(1)}),
		"New: PerSecond NaN is above 10000":             with(retrybudget.Config{PerSecond: math.NaN()}),
		"New: Burst 1000001 is above 1000000":           with(retrybudget.Config{Burst: 1_000_001}),
		"New: Window 1ms is not within 1s and 1m0s":     with(retrybudget.Config{Window: time.Millisecond}),
		"New: Window -1s is not within 1s and 1m0s":     with(retrybudget.Config{Window: -time.Second}),
		"NewSet: targets 0 is below 1":                  func() { retrybudget.NewSet(retrybudget.Config{}, 0) },
		"NewSet: Window 2m0s is not within 1s and 1m0s": func() { retrybudget.NewSet(retrybudget.Config{Window: 2 * time.Minute}, 1) },
		"For: empty target":                             func() { retrybudget.NewSet(retrybudget.Config{}, 1).For("") },
		"AtMost: negative n -1":                         func() { retrybudget.Unlimited().AtMost(-1) },
		"Do: nil f":                                     func() { _ = retrybudget.Do(context.Background(), retrybudget.Unlimited(), retrybudget.Policy{}, nil) },
		"Do: negative Attempts -1":                      do(retrybudget.Policy{Attempts: -1}),
		"Do: negative PerAttempt -1s":                   do(retrybudget.Policy{PerAttempt: -time.Second}),
		"Do: negative RetryFor -1s":                     do(retrybudget.Policy{RetryFor: -time.Second}),
		"Do: negative Backoff: Base -1s, Max 0s":        do(retrybudget.Policy{Backoff: retrybudget.Backoff{Base: -time.Second}}),
		"Do: Backoff: Max 1s is below Base 2s":          do(retrybudget.Policy{Backoff: retrybudget.Backoff{Base: 2 * time.Second, Max: time.Second}}),
		"Do: Backoff: unknown Jitter 9":                 do(retrybudget.Policy{Backoff: retrybudget.Backoff{Jitter: 9}}),
		"Success" + isNil:                               func() { missing.Success() },
		"TryTake" + isNil:                               func() { missing.TryTake() },
		"Hedges" + isNil:                                func() { missing.Hedges() },
		"AtMost" + isNil:                                func() { missing.AtMost(1) },
		"Stats" + isNil:                                 func() { missing.Stats() },
		"String" + isNil:                                func() { _ = missing.String() },
		"Do" + isNil:                                    func() { _ = retrybudget.Do(context.Background(), missing, retrybudget.Policy{}, ok) },
		"DoValue" + isNil: func() {
			_, _ = retrybudget.DoValue(context.Background(), missing, retrybudget.Policy{}, func(context.Context) (int, error) { return 0, nil })
		},
		"TryTake: zero Budget; New makes one":    func() { new(retrybudget.Budget).TryTake() },
		"For: nil or zero Set; NewSet makes one": func() { new(retrybudget.Set).For("target") },
		"Do: nil context":                        func() { _ = retrybudget.Do(noCtx, retrybudget.Unlimited(), retrybudget.Policy{}, ok) },
		"Pause: nil context":                     func() { _ = retrybudget.Pause(noCtx, nil) },
		"DoValue: nil f": func() {
			_, _ = retrybudget.DoValue[int](context.Background(), retrybudget.Unlimited(), retrybudget.Policy{}, nil)
		},
	} {
		assert.PanicsWithValue(t, "retrybudget: "+text, f)
	}
}
