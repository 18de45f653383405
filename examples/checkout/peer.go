package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/retrybudget"
)

// A peer is another service as mode curfew calls it. It has no timeout: the deadline of the context
// that a call brings is the only one, and the Transport tells the service what is left of it, tries
// again when there is time and credit for that, and says so to those above.
type peer struct {
	url    string
	client *http.Client
	credit *retrybudget.Budget
	seen   *latency.Observed // how long its answers take
}

// newPeer makes a peer that is called over base, up to attempts times for one request. With a pool,
// which may be nil, its budget is a member of the fleet of all that call that service.
func newPeer(name, url string, base http.RoundTripper, attempts int, pace pace, pool retrybudget.Pool) *peer {
	credit := retrybudget.New(name, retrybudget.Config{
		Ratio:  retryShare,
		Burst:  -1, // no floor: what is not earned is not spent
		Window: max(pace.real(retryWindow), time.Second),
		Pool:   pool,
	})
	seen := latency.New(latency.Config{Window: pace.real(typicalWindow)})
	return &peer{url: url, credit: credit, seen: seen, client: &http.Client{Transport: &curfewhttp.Transport{
		Base:     base,
		Slush:    hopSlush(pace),
		Target:   func(*http.Request) string { return name },
		Observed: seen,
		Budget:   func(string) *retrybudget.Budget { return credit },
		Policy: retrybudget.Policy{
			Idempotent: true, // a read, and an authorization that carries its own id
			Attempts:   attempts,
			Backoff:    retrybudget.Backoff{Base: pace.real(firstBackoff)},
			Gate:       breaker(name, pace),
		},
	}}}
}

// breaker returns a circuit breaker as a gate before each attempt. A call that the caller itself gave
// up says nothing about the peer.
func breaker(name string, pace pace) func() (func(error), error) {
	b := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{Name: name, Timeout: pace.real(breakerOpen)})
	return func() (func(error), error) {
		done, err := b.Allow()
		if err != nil {
			return nil, &budget.Cause{Kind: budget.Overloaded, Err: fmt.Errorf("%s: %w", name, err)}
		}
		return func(err error) {
			switch budget.KindOf(err) {
			case budget.SiblingFailed, budget.ClientCancelled, budget.ParentCancelled:
				err = nil
			}
			done(err)
		}, nil
	}
}

// call asks p and decodes its answer.
func call[T any](ctx context.Context, p *peer, method, path string) (answer T, err error) {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, nil)
	if err != nil {
		return answer, err
	}
	req.Header.Set(idHeader, requestID(ctx))
	resp, err := p.client.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if err := curfewhttp.CheckResponse(resp); err != nil {
		return answer, err
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer, err
}

// answer makes a handler of f.
func answer[T any](f func(context.Context, *http.Request) (T, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(context.WithValue(r.Context(), idKey{}, r.Header.Get(idHeader)), r)
		if err != nil {
			curfewhttp.Error(w, r, err)
			return
		}
		reply(w, v)
	})
}

type idKey struct{}

// requestID returns the id of the checkout that ctx belongs to.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

// kindNamed reads, for the user, the kind that an answer names: in problem details, or alone.
func kindNamed(text string) (kind budget.Kind, ok bool) {
	name := strings.TrimSpace(text)
	var problem struct{ Kind string }
	if json.Unmarshal([]byte(text), &problem) == nil {
		name = problem.Kind
	}
	for kind := budget.Failed; kind <= budget.Closed; kind++ {
		if kind.String() == name {
			return kind, true
		}
	}
	return budget.None, false
}
