package curfewhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/scope"
)

const secretURL = "http://user:hush-word@inner.test/hush-path?token=hush-%22token%22#hush-fragment"

// said is everything that a handler says about err, and the error's own text.
func said(t *testing.T, err error) string {
	t.Helper()
	var log bytes.Buffer
	var counts meter.Memory
	h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		failed := scope.Run(r.Context(), "order", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
			s.Go("call", func(context.Context) error { return fmt.Errorf("calling: %w", err) })
			return s.Wait()
		})
		slog.New(slog.NewTextHandler(&log, nil)).Error("failed", "err", failed)
		curfewhttp.Error(w, r, failed)
	}), curfewhttp.Config{Log: slog.New(slog.NewJSONHandler(&log, nil)), Recorder: &counts, ServerTiming: true})
	answer := &sink{nobody: nobody{make(http.Header)}}
	h.ServeHTTP(answer, httpRequest)
	return fmt.Sprintf("%v %+v %s %s %s %v", err, err, answer.String(), log.String(), counts.String(), answer.header)
}

// What a base returns may be the error of a whole client, with an address in it, which
// need not be that of the request.
func TestSecretsOfAnAddressInAnErrorOfTheBaseAreNotSaid(t *testing.T) {
	boom := errors.New("boom")
	inner := &url.Error{Op: "Get", URL: secretURL, Err: boom}
	for what, from := range map[string]error{
		"one":              inner,
		"one in another":   &url.Error{Op: "Post", URL: "http://other:hush-other@outer.test/?key=hush-key", Err: inner},
		"one that is told": fmt.Errorf("proxy: %w", inner),
		"several":          errors.Join(boom, fmt.Errorf("second: %w", inner)),
		"flattened":        fmt.Errorf("%w: asking %s failed: %q", boom, secretURL, secretURL),
		"only the query":   fmt.Errorf("%w: no such thing: /hush-less?token=hush-%%22token%%22", boom),
	} {
		base := &script{answer: func(int, *http.Request) (*http.Response, error) { return nil, from }}
		r := ask(t, enter(t, t.Context(), budget.Within(time.Minute)), "GET", secretURL, "")
		_, err := (&curfewhttp.Transport{Base: base}).RoundTrip(r)
		require.ErrorIs(t, err, boom, what)
		text := said(t, err)
		for _, secret := range []string{"hush-word", "hush-path", "token", "hush-fragment", "hush-other", "hush-key", "user:"} {
			assert.NotContains(t, text, secret, what)
		}
	}
}

// An error about which nothing is to be hidden is the base's own, and one that is a
// timeout stays one.
func TestAnErrorWithoutItsAddressIsOtherwiseTheSame(t *testing.T) {
	plain := &url.Error{Op: "Get", URL: "http://inner.test", Err: errors.New("boom")}
	late := &url.Error{Op: "Get", URL: secretURL, Err: &net.DNSError{IsTimeout: true}}
	for _, from := range []error{plain, late} {
		base := &script{answer: func(int, *http.Request) (*http.Response, error) { return nil, from }}
		_, err := (&curfewhttp.Transport{Base: base}).RoundTrip(ask(t, inMinute(t), "GET", "http://inner.test", ""))
		assert.ErrorIs(t, err, from)
		if from == plain {
			assert.Same(t, from, err)
			continue
		}
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
	}
}

// Where a redirect leads is what the peer says, with whatever is in it.
func TestSecretsOfWhereARedirectLeadsAreNotSaid(t *testing.T) {
	failing := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }), false)
	const secrets = "/hush-path?token=hush-token"
	for what, location := range map[string]string{
		"nobody there":    "http://user:hush-word@127.0.0.1:1" + secrets,
		"another scheme":  "gopher://user:hush-word@inner.test" + secrets,
		"no address":      "http://user:hush-word@inner.test:port" + secrets,
		"control bytes":   "http://user:hush-word@inner.test" + secrets + "%zz\x7f",
		"one that fails":  "http://user:hush-word@" + failing.Listener.Addr().String() + secrets,
		"round and round": "/again" + secrets,
	} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Location"] = []string{location}
			w.WriteHeader(http.StatusFound)
		}), false)
		resp, err := curfewhttp.Do(t.Context(), budget.Within(patience), nil, s.request(t, t.Context()))
		if err == nil {
			resp.Body.Close()
			err = curfewhttp.CheckResponse(resp)
		}
		require.Error(t, err, what)
		text := said(t, err)
		assert.NotContains(t, text, "hush", what)
		assert.NotContains(t, text, "token", what)
	}
}
