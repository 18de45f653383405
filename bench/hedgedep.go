package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cristalhq/hedgedhttp"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// hedgeAfter is when the second attempt at the dependency begins.
const hedgeAfter = 2 * time.Millisecond

// A dependency is an HTTP server of which the first request of each call hangs until its
// caller gives it up, and any other is answered at once.
type dependency struct {
	*httptest.Server
	requests atomic.Int64
	answered chan time.Time // when the winner was about to be answered
	stopped  chan time.Time // when the loser's handler noticed
}

func newDependency() *dependency {
	d := &dependency{answered: make(chan time.Time, 8), stopped: make(chan time.Time, 8)}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.requests.Add(1) == 1 {
			select {
			case <-r.Context().Done():
				d.stopped <- time.Now()
			case <-time.After(patience):
			}
			return
		}
		d.answered <- time.Now()
		w.WriteHeader(http.StatusNoContent)
	}))
	return d
}

// get is one attempt.
func (d *dependency) get(ctx context.Context, client *http.Client) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// loses is a system that makes one hedged call to a dependency: stopped-ns is from the
// winner's answer until the work at the loser's end has stopped, there.
func loses(name string, prepare func(d *dependency) (call func() error)) System {
	return System{name, func() Work {
		d := newDependency()
		call := prepare(d)
		return Work{
			Sample: func() []Metric {
				d.requests.Store(0)
				must(call())
				answered := <-d.answered
				select {
				case at := <-d.stopped:
					return []Metric{{"stopped-ns", float64(at.Sub(answered))}}
				case <-time.After(patience + time.Second):
					return []Metric{{"ignored", 1}}
				}
			},
			Close: d.Close,
		}
	}}
}

func dependencyCase() Case {
	within := func(f func(ctx context.Context) error) error {
		return scope.Run(context.Background(), "bench", budget.Within(time.Minute), func(ctx context.Context, _ *scope.Scope) error { return f(ctx) })
	}
	status := func(code int, err error) error {
		if err == nil && code != http.StatusNoContent {
			panic("bench: status " + strconv.Itoa(code))
		}
		return err
	}
	return Case{
		Name: "loser's server stops", Parent: "scope, std for others", Main: "stopped-ns",
		Systems: []System{
			loses("curfew", func(d *dependency) func() error {
				c := race.Config[int]{After: func() time.Duration { return hedgeAfter }}
				return func() error {
					return within(func(ctx context.Context) error {
						return status(c.Hedge(ctx, "call", func(ctx context.Context) (int, error) { return d.get(ctx, d.Client()) }))
					})
				}
			}),
			loses("curfew/transport", func(d *dependency) func() error {
				client := &http.Client{Transport: &curfewhttp.Transport{
					Base:   d.Client().Transport,
					Budget: retrybudget.NewSet(retrybudget.Config{Ratio: 10}, 10).For,
					Hedge:  func() time.Duration { return hedgeAfter },
				}}
				return func() error {
					return within(func(ctx context.Context) error { return status(d.get(ctx, client)) })
				}
			}),
			loses("failsafe", func(d *dependency) func() error {
				executor := failsafe.With(hedgepolicy.NewWithDelay[int](hedgeAfter))
				return func() error {
					return status(executor.GetWithExecution(func(e failsafe.Execution[int]) (int, error) { return d.get(e.Context(), d.Client()) }))
				}
			}),
			loses("hedgedhttp", func(d *dependency) func() error {
				rt, err := hedgedhttp.NewRoundTripper(hedgeAfter, 2, d.Client().Transport)
				must(err)
				client := &http.Client{Transport: rt}
				return func() error { return status(d.get(context.Background(), client)) }
			}),
		},
	}
}
