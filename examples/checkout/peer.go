package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/retrybudget"
)

// A peer is another service as mode curfew calls it. It has no timeout: the deadline of the context
// that a call brings is the only one.
type peer struct {
	name, url string
	client    *http.Client
	policy    retrybudget.Policy
	credit    *retrybudget.Budget
	seen      *latency.Observed // how long its answers take
}

// newPeer makes a peer that is called up to attempts times for one request. With a pool, which may
// be nil, its budget is a member of the fleet of all that call that service.
func newPeer(name, url string, client *http.Client, attempts int, pace pace, pool retrybudget.Pool) *peer {
	p := &peer{
		name: name, url: url, client: client,
		credit: retrybudget.New(name, retrybudget.Config{
			Ratio:  retryShare,
			Burst:  -1, // no floor: what is not earned is not spent
			Window: max(pace.real(retryWindow), time.Second),
			Pool:   pool,
		}),
		seen: latency.New(latency.Config{Window: pace.real(typicalWindow)}),
	}
	breaker := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name:    name,
		Timeout: pace.real(breakerOpen),
	})
	p.policy = retrybudget.Policy{
		Idempotent: true, // a read, and an authorization that carries its own id
		Attempts:   attempts,
		Backoff:    retrybudget.Backoff{Base: pace.real(firstBackoff)},
		Typical:    p.seen.Typical,
		Judge:      judge,
		Gate: func() (func(error), error) {
			done, err := breaker.Allow()
			if err != nil {
				return nil, &budget.Cause{Kind: budget.Overloaded, Err: fmt.Errorf("%s: %w", name, err)}
			}
			return func(err error) { done(blamed(err)) }, nil
		},
	}
	return p
}

// judge says whether an error may be repeated. No attempt has a limit of its own here, so a deadline
// that was exceeded, here or at the peer, is that of the whole checkout.
func judge(err error) retrybudget.Verdict {
	v := retrybudget.DefaultJudge(err)
	v.Retry = v.Retry && budget.KindOf(err) != budget.DeadlineExceeded
	return v
}

// blamed is what the breaker is told: a call that the caller itself gave up says nothing about the
// peer.
func blamed(err error) error {
	switch budget.KindOf(err) {
	case budget.SiblingFailed, budget.ClientCancelled, budget.ParentCancelled:
		return nil
	}
	return err
}

// call asks p and decodes its answer, again when its policy and its budget allow that.
func call[T any](ctx context.Context, p *peer, method, path string) (answer T, err error) {
	return retrybudget.DoValue(ctx, p.credit, p.policy, func(ctx context.Context) (answer T, err error) {
		began := time.Now()
		err = p.try(ctx, method, path, &answer)
		p.seen.Record(time.Since(began), err)
		return answer, err
	})
}

func (p *peer) try(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set(idHeader, requestID(ctx))
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("calling %s: %w", p.name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return &budget.Cause{Kind: kindFrom(resp.StatusCode, string(text)), Err: fmt.Errorf("%s answered %s", p.name, resp.Status)}
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// answer makes a handler of f. An error is answered with the status of its kind and the kind's name.
func answer[T any](f func(context.Context, *http.Request) (T, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(context.WithValue(r.Context(), idKey{}, r.Header.Get(idHeader)), r)
		if err != nil {
			kind := budget.KindOf(err)
			http.Error(w, kind.String(), kind.HTTPStatus())
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

// kindFrom returns the kind that a failing answer names, or else what its status says.
func kindFrom(status int, text string) budget.Kind {
	if kind, ok := kindNamed(text); ok {
		return kind
	}
	switch status {
	case http.StatusGatewayTimeout:
		return budget.DependencyTimeout
	case http.StatusServiceUnavailable:
		return budget.Overloaded
	}
	return budget.Failed
}

// kindNamed reads what answer writes, and the problem details of curfewhttp's own answers.
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
