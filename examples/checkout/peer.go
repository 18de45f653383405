package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A peer is another service as mode curfew calls it. It has no timeout: the deadline of the context
// that a call brings is the only one.
type peer struct {
	name, url string
	client    *http.Client
	attempts  int
	backoff   time.Duration

	credit  retryCredit
	typical atomic.Int64 // what the last success took: crude, but it follows a fault at once
}

func newPeer(name, url string, client *http.Client, attempts int, backoff time.Duration) *peer {
	return &peer{name: name, url: url, client: client, attempts: attempts, backoff: backoff}
}

// call asks p and decodes its answer. It tries again only when the error permits that, another typical
// attempt still fits into what is left, and there is credit for it. All calls here are safe to repeat:
// a read, and an authorization that carries its own id.
func call[T any](ctx context.Context, p *peer, method, path string) (answer T, err error) {
	for attempt := 1; ; attempt++ {
		began := time.Now()
		if err = p.try(ctx, method, path, &answer); err == nil {
			p.typical.Store(int64(time.Since(began)))
			p.credit.success()
			return answer, nil
		}
		pause := rand.N(p.backoff << (attempt - 1))
		if attempt == p.attempts || !mayRetry(err) || budget.Require(ctx, pause+time.Duration(p.typical.Load())) != nil || !p.credit.take() {
			return answer, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return answer, err
		}
	}
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

func mayRetry(err error) bool {
	switch budget.KindOf(err).Retry() {
	case budget.RetryYes, budget.RetryIfBudget, budget.RetryJudge:
		return true
	}
	return false
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

// kindFrom reads what answer and curfewhttp's own refusals write.
func kindFrom(status int, text string) budget.Kind {
	name := strings.TrimPrefix(strings.TrimSpace(text), "not started: ")
	for kind := budget.Failed; kind <= budget.Closed; kind++ {
		if kind.String() == name {
			return kind
		}
	}
	switch status {
	case http.StatusGatewayTimeout:
		return budget.DependencyTimeout
	case http.StatusServiceUnavailable:
		return budget.Overloaded
	}
	return budget.Failed
}
