package curfewhttp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

// A script is the base of a Transport: it answers attempt n, from 1 on, and keeps
// what was asked.
type script struct {
	answer func(n int, r *http.Request) (*http.Response, error)

	mu   sync.Mutex
	sent []*http.Request
	said []string // the bodies
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	said := ""
	if r.Body != nil {
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		said = string(text)
	}
	s.mu.Lock()
	s.sent = append(s.sent, r)
	s.said = append(s.said, said)
	n := len(s.sent)
	s.mu.Unlock()
	resp, err := s.answer(n, r)
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}

func (s *script) headers(name string) (values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.sent {
		values = append(values, r.Header.Get(name))
	}
	return values
}

func (s *script) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// replying returns a response; pairs are names and values of headers.
func replying(status int, pairs ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, ProtoMajor: 1, Body: io.NopCloser(strings.NewReader("body"))}
}

// always answers every attempt alike.
func always(status int, pairs ...string) *script {
	return &script{answer: func(int, *http.Request) (*http.Response, error) { return replying(status, pairs...), nil }}
}

// unlimited is for Transport.Budget.
func unlimited() func(string) *retrybudget.Budget {
	b := retrybudget.Unlimited()
	return func(string) *retrybudget.Budget { return b }
}

// retrying is a Transport over base without a bound on retries.
func retrying(base http.RoundTripper) *curfewhttp.Transport {
	return &curfewhttp.Transport{Base: base, Budget: unlimited()}
}

func ask(t testing.TB, ctx context.Context, method, url, body string) *http.Request {
	t.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, b)
	require.NoError(t, err)
	return r
}

func inMinute(t testing.TB) context.Context {
	return enter(t, context.Background(), budget.Within(time.Minute).Named("checkout"))
}
