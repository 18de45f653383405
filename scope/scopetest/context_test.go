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

func TestTheDeadlineIsGenerousAndBeforeTheEndOfTheTestBinary(t *testing.T) {
	for _, tt := range []struct {
		name string
		left time.Duration // 0: go test has no timeout
		want time.Duration
	}{
		{"no timeout", 0, time.Hour},
		{"ten minutes, go test's default", 10 * time.Minute, 10*time.Minute - 10*time.Second},
		{"a day", 24 * time.Hour, time.Hour},
		{"a minute", time.Minute, 54 * time.Second},
		{"a second", time.Second, 900 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // for an exact clock; r's Deadline does not mind
				var tb testing.TB = record(t)
				if tt.left > 0 {
					tb = timedRecorder{record(t), tt.left}
				}
				left, ok := budget.Remaining(scopetest.Context(tb))
				assert.True(t, ok)
				assert.Equal(t, tt.want, left)
			})
		})
	}
}

func TestTheDeadlineOfABubbleIsAnHourOnItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := scopetest.Context(t)
		began := time.Now()
		err := scope.Run(ctx, "shop", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
			s.Go("fetch", obedient)
			return nil
		})
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.ErrorContains(t, err, "limit scopetest 1h", "the error says whose deadline it was")
		assert.Equal(t, time.Hour, time.Since(began))
	})
}

func TestARealTestHasADeadlineBeforeItsBinary(t *testing.T) {
	ctx := scopetest.Context(t)
	deadline, ok := ctx.Deadline()
	require.True(t, ok)
	if end, ok := t.Deadline(); ok {
		assert.True(t, deadline.Before(end))
	}
}

// A bench is what is no *testing.T: it has no Deadline.
func TestABenchmarkHasAnHour(t *testing.T) {
	var left time.Duration
	testing.Benchmark(func(b *testing.B) {
		if left == 0 {
			left, _ = budget.Remaining(scopetest.Context(b))
		}
		b.SkipNow()
	})
	assert.InDelta(t, time.Hour, left, float64(time.Minute))
}

func TestTheContextHasTheValuesAndTheEndOfTheTests(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
		ctx := scopetest.Context(r)
		assert.Equal(t, t.Name(), ctx.Value(nameKey{}))
		ended := false
		r.Cleanup(func() {
			<-ctx.Done() // as one that waits for a server which stops with it
			ended = true
		})
		assert.Empty(t, r.end())
		assert.True(t, ended)
	})
}

// An endless recorder is a testing.TB of others whose context does not end.
type endless struct{ *recorder }

func (endless) Context() context.Context { return context.Background() }

func TestTheContextEndsBeforeTheCheckWhateverTheTestsDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
		runBeside(scopetest.Context(endless{r}), func(_ context.Context, s *scope.Scope) error {
			s.Go("fetch", obedient)
			return nil
		})
		assert.Empty(t, r.end())
	})
}

// Nothing of scopetest stands in the paths: what the code under test does and
// returns is what it does and returns without.
func TestPathsAreThoseWithoutScopetest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(_ context.Context, s *scope.Scope) error {
			s.Go("fetch", func(context.Context) error { return errDown })
			return nil
		}
		with := scope.Run(scopetest.Context(t), "shop", budget.Within(time.Second), fails)
		without := scope.Run(t.Context(), "shop", budget.Within(time.Second), fails)
		assert.EqualError(t, with, without.Error())
	})
}

func TestContextAfterTheEndFailsTheTest(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
		r.cancel()
		assert.True(t, goexits(func() { scopetest.Context(r) }))
		assert.True(t, r.fatal)
		assert.Contains(t, oneLine(r.failures), "scopetest: Context: ")
	})
}

func TestBadCallsPanicWithTheArgument(t *testing.T) {
	ctx := scopetest.Context(t)
	place := scopetest.At("shop/fetch", scopetest.Start)
	var none context.Context
	for _, tt := range []struct {
		text string
		f    func()
	}{
		{"scopetest: Context: nil testing.TB", func() { scopetest.Context(nil) }},
		{"scopetest: Grace(-1s): must not be negative", func() { scopetest.Grace(-time.Second) }},
		{`scopetest: AllowOrphan: malformed path pattern "shop/["`, func() { scopetest.AllowOrphan("shop/[") }},
		{`scopetest: AllowOrphan: malformed path pattern ""`, func() { scopetest.AllowOrphan("") }},
		{"scopetest: Root: empty name", func() { scopetest.Root(ctx, "") }},
		{"scopetest: Root: the context does not come from scopetest.Context", func() { scopetest.Root(t.Context(), "app") }},
		{`scopetest: At: malformed path pattern "["`, func() { scopetest.At("[", scopetest.Start) }},
		{`scopetest: At("shop/fetch"): unknown Point(4)`, func() { scopetest.At("shop/fetch", 4) }},
		{`scopetest: At("shop/fetch", Start).Fail: nil error`, func() { place.Fail(nil) }},
		{`scopetest: At("shop/fetch", Start).Panic: nil value`, func() { place.Panic(nil) }},
		{`scopetest: At("shop/fetch", Start).Delay(0s): must be positive`, func() { place.Delay(0) }},
		{`scopetest: At("shop/fetch", Start).Deaf(-1ns): must be positive`, func() { place.Deaf(-1) }},
		{`scopetest: At("shop/fetch", Start).Goexit(): Times(0): must be at least 1`, func() { place.Goexit().Times(0) }},
		{"scopetest: Inject: nil context", func() { scopetest.Inject(none) }},
		{"scopetest: Inject: the context does not come from scopetest.Context", func() { scopetest.Inject(t.Context()) }},
		{"scopetest: Inject: fault 0 is nil", func() { scopetest.Inject(ctx, nil) }},
	} {
		t.Run(tt.text, func(t *testing.T) { assert.PanicsWithValue(t, tt.text, tt.f) })
	}
}
