package bench

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cristalhq/hedgedhttp"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

var _ = register(Suite{
	Name: "hedge",
	About: "a hedged call. Armed: the first attempt answers at once. Fired: the first waits until it is cancelled, the second answers. " +
		"hedgedhttp hedges requests, over a transport in memory here, and copies one: its figure is that of an HTTP client. " +
		"Loser stops: from the winner's answer until the loser's attempt has ended; loser's server: until the HTTP server that it had asked works no longer.",
	Cases: hedgeCases,
})

type attempt = func(context.Context) (int, error)

// inScope runs a system's operations within one scope, as a handler does.
func inScope(name string, f func(ctx context.Context)) System {
	return System{name, func() Work {
		return Work{Op: func(n int) {
			must(scope.Run(context.Background(), "bench", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				for range n {
					f(ctx)
				}
				return nil
			}))
		}}
	}}
}

func hedged(name string, inline bool, after time.Duration, f attempt) System {
	c := race.Config[int]{After: func() time.Duration { return after }, Inline: inline}
	return inScope(name, func(ctx context.Context) {
		_, err := c.Hedge(ctx, "hedge", f)
		must(err)
	})
}

func failsafeHedge(after time.Duration, f attempt) System {
	std := kept(context.WithTimeout(context.Background(), 24*time.Hour))
	executor := failsafe.With(hedgepolicy.NewWithDelay[int](after)).WithContext(std)
	return op("failsafe", func() {
		_, err := executor.GetWithExecution(func(e failsafe.Execution[int]) (int, error) { return f(e.Context()) })
		must(err)
	})
}

type memory struct{}

func (memory) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func hedgedHTTP() System {
	rt, err := hedgedhttp.NewRoundTripper(time.Minute, 2, memory{})
	must(err)
	r, err := http.NewRequest(http.MethodGet, "http://example.test/", nil)
	must(err)
	return op("hedgedhttp", func() {
		resp, err := rt.RoundTrip(r)
		must(err)
		must(resp.Body.Close())
	})
}

func hedgeCases(Scale) []Case {
	quick := func(context.Context) (int, error) { return 1, nil }
	asks := func(ctx context.Context) (int, error) { ctx.Done(); return 1, nil }
	loses := func(ctx context.Context) (int, error) {
		if race.Attempt(ctx) == 0 {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return 1, nil
	}
	const later = 30 * time.Minute
	return []Case{{
		Name: "armed", Parent: "scope, std for failsafe",
		Systems: []System{hedged("curfew", false, later, quick), hedged("curfew/inline", true, later, quick),
			failsafeHedge(later, quick), hedgedHTTP()},
	}, {
		Name: "armed, asks for Done", Parent: "scope, std for failsafe",
		Systems: []System{hedged("curfew", false, later, asks), hedged("curfew/inline", true, later, asks),
			failsafeHedge(later, asks)},
	}, {
		Name: "fired", Parent: "scope, std for failsafe",
		Systems: []System{hedged("curfew", false, time.Nanosecond, loses), failsafeFired()},
	}, {
		Name: "loser stops", Parent: "scope, std for failsafe", Main: "stopped-ns",
		Systems: []System{stops("curfew"), stops("failsafe")},
	}, dependencyCase()}
}

// failsafeFired tells the attempts apart by the policy's own mark.
func failsafeFired() System {
	std := kept(context.WithTimeout(context.Background(), 24*time.Hour))
	executor := failsafe.With(hedgepolicy.NewWithDelay[int](time.Nanosecond)).WithContext(std)
	return op("failsafe", func() {
		_, err := executor.GetWithExecution(func(e failsafe.Execution[int]) (int, error) {
			if !e.IsHedge() {
				<-e.Context().Done()
				return 0, e.Context().Err()
			}
			return 1, nil
		})
		must(err)
	})
}

// stops measures from the instant before the winner's return until the loser, which
// holds what it depends on, has stopped using it.
func stops(name string) System {
	return System{name, func() Work {
		return Work{Sample: func() []Metric {
			var won time.Time
			stopped := make(chan time.Time, 1)
			attempt := func(ctx context.Context, first bool) (int, error) {
				if first {
					<-ctx.Done()
					stopped <- time.Now()
					return 0, ctx.Err()
				}
				won = time.Now()
				return 1, nil
			}
			if name == "curfew" {
				must(scope.Run(context.Background(), "bench", budget.Within(time.Minute), func(ctx context.Context, _ *scope.Scope) error {
					_, err := race.Hedge(ctx, "hedge", time.Millisecond, func(ctx context.Context) (int, error) {
						return attempt(ctx, race.Attempt(ctx) == 0)
					})
					return err
				}))
			} else {
				std, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				policy := hedgepolicy.NewWithDelay[int](time.Millisecond)
				_, err := failsafe.With(policy).WithContext(std).GetWithExecution(func(e failsafe.Execution[int]) (int, error) {
					return attempt(e.Context(), !e.IsHedge())
				})
				must(err)
			}
			return []Metric{{"stopped-ns", float64((<-stopped).Sub(won))}}
		}}
	}}
}
