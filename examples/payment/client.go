package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// A client pays by asking again, each time with a fresh budget, as a person does who presses the
// button once more: nobody below repeats anything.
type client struct {
	url   string
	http  *http.Client
	limit time.Duration // for one request
	pause time.Duration // the most between two

	posts    atomic.Int64
	untold   atomic.Int64 // requests after which it did not know more than before
	replayed atomic.Int64 // payments that turned out to be booked by an earlier request
}

func newClient(url string, limit time.Duration) *client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 64
	return &client{url: url, http: &http.Client{Transport: &curfewhttp.Transport{Base: base}}, limit: limit, pause: limit / 4}
}

var errRefused = errors.New("the service will never take this payment")

// pay sends p until it is told that p is paid, or ctx ends. key names each request: a client that
// makes a new one for each request is how payments are made twice.
func (c *client) pay(ctx context.Context, p payment, key func() string) error {
	for {
		p.Key = key()
		status, err := c.post(ctx, p)
		c.posts.Add(1)
		switch {
		case err != nil: // no answer in time
		case status == http.StatusCreated:
			return nil
		case status == http.StatusOK:
			c.replayed.Add(1)
			return nil
		case status == http.StatusUnprocessableEntity || status == http.StatusBadRequest:
			return errRefused
		}
		c.untold.Add(1)
		again := time.NewTimer(rand.N(c.pause))
		select {
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("not told whether it is paid: %w", context.Cause(ctx))
		case <-again.C:
		}
	}
}

func (c *client) post(ctx context.Context, p payment) (status int, err error) {
	body, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/payments", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Idempotency-Key", p.Key)
	return c.do(ctx, r)
}

// status asks what became of the payment with this key.
func (c *client) status(ctx context.Context, key string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/payments/"+key, nil)
	if err != nil {
		return 0, err
	}
	return c.do(ctx, r)
}

func (c *client) do(ctx context.Context, r *http.Request) (status int, err error) {
	answer, err := curfewhttp.Do(ctx, budget.Within(c.limit).Named("one request"), c.http, r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Body.Close()
}
