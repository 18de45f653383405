package curfewhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

func TestCase1_LessThanAMillisecondIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := always(200)
		_, err := (&curfewhttp.Transport{Base: base, Slush: noSlush}).RoundTrip(
			ask(t, enter(t, t.Context(), budget.Within(700*time.Microsecond)), "GET", "http://peer/", ""))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, base.attempts())
	})
}

func TestCase19_AStreamsRequestEndsAtItsDeadline(t *testing.T) {
	addr := listen(t, silentPeer)
	begin := time.Now()
	_, err := curfewhttp.Do(t.Context(), budget.Within(100*ms).Named("open stream"), nil, ask(t, t.Context(), "GET", "http://"+addr, ""))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "open stream 100ms")
	assert.GreaterOrEqual(t, time.Since(begin), 100*ms)
	assert.Less(t, time.Since(begin), 10*time.Second)
}

func TestCase26_TheHandlersDeadlineIsTheClients(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		deadline := make(chan time.Time, 1)
		s := start(curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d, _ := r.Context().Deadline()
			deadline <- d
		}), curfewhttp.Config{Max: time.Hour}))
		begin := time.Now()
		client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}}
		resp, err := curfewhttp.Do(t.Context(), budget.Within(30*time.Second), client, s.request(t, t.Context()))
		require.NoError(t, err)
		resp.Body.Close()
		took := time.Since(begin)
		early := begin.Add(30 * time.Second).Sub(<-deadline)
		assert.InDelta(t, 50*ms, early, float64(took+2*ms), "the slush, within a round trip")
	})
}

func TestCase35_ANamedCauseIsStillATimeout(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		for name, ask := range map[string]func() error{
			"ours": func() error {
				client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}}
				_, err := curfewhttp.Do(t.Context(), budget.Within(60*ms).Named("the nightly batch"), client, s.request(t, t.Context()))
				return err
			},
			"std": func() error {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 60*ms, errors.New("the nightly batch"))
				defer cancel()
				client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}}
				_, err := client.Do(s.request(t, ctx))
				return err
			},
		} {
			err := ask()
			assert.ErrorIs(t, err, context.DeadlineExceeded, name)
			var ne net.Error
			require.ErrorAs(t, err, &ne, name)
			assert.True(t, ne.Timeout(), name)
			assert.ErrorContains(t, err, "the nightly batch", name)
		}
	})
}

func TestCase36_ACancelIsNoTimeout(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}, Timeout: time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*ms, cancel)
		_, err := curfewhttp.Do(ctx, budget.Within(time.Minute), client, s.request(t, t.Context()))
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		var ne net.Error
		require.ErrorAs(t, err, &ne)
		assert.False(t, ne.Timeout())
	})
}

func TestCase37_ACleanupOverADeadConnectionKeepsToItsBound(t *testing.T) {
	var hole blackHole
	base := &http.Transport{DialContext: (&curfewhttp.Dialer{Dial: hole.dial}).DialContext}
	client := &http.Client{Transport: &curfewhttp.Transport{Base: base}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	ctx, done := budget.Detached(over, 500*ms)
	defer done()
	_, err := curfewhttp.Do(ctx, budget.Inherited(), client, ask(t, t.Context(), "DELETE", "http://192.0.2.1/session", ""))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "phase connect, limit detached 500ms")
	assert.Less(t, time.Since(begin), 2500*ms)
	assert.Eventually(t, func() bool { return hole.open.Load() == 0 }, patience, ms)
}

func TestALimitCoversReadingTheBody(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "the beginning")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}}
		resp, err := curfewhttp.Do(t.Context(), budget.Within(200*ms).Named("export"), client, s.request(t, t.Context()))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		assert.Equal(t, "the beginning", string(text))
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.ErrorContains(t, err, "phase body, limit export 200ms")
	})
}

func TestALimitIsReleasedAtTheEndOfTheBody(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }), false)
	ctx := inMinute(t)
	below := func() int { return len(ctxnode.Find(ctx).Node().Children()) }
	for name, finish := range map[string]func(io.ReadCloser){
		"read":   func(b io.ReadCloser) { io.Copy(io.Discard, b) },
		"closed": func(b io.ReadCloser) { b.Close() },
	} {
		resp, err := curfewhttp.Do(ctx, budget.Within(time.Second), nil, s.request(t, t.Context()))
		require.NoError(t, err)
		assert.Equal(t, 1, below(), name)
		finish(resp.Body)
		assert.Zero(t, below(), name)
		resp.Body.Close()
	}
	r := s.request(t, t.Context())
	r.Method = "HEAD"
	_, err := curfewhttp.Do(ctx, budget.Within(time.Second), nil, r)
	require.NoError(t, err)
	assert.Zero(t, below(), "no body")
	_, err = curfewhttp.Do(ctx, budget.Within(time.Second), nil, ask(t, t.Context(), "GET", "http://127.0.0.1:1/", ""))
	require.Error(t, err)
	assert.Zero(t, below(), "an error")
}

func TestDoKeepsSecretsOutOfItsErrors(t *testing.T) {
	_, err := curfewhttp.Do(t.Context(), budget.Within(time.Minute), nil, ask(t, t.Context(), "GET", "http://user:hush@127.0.0.1:1/private?token=secret", ""))
	var u *url.Error
	require.ErrorAs(t, err, &u)
	assert.Equal(t, "http://127.0.0.1:1", u.URL)
	for _, secret := range []string{"hush", "user", "secret", "private"} {
		assert.NotContains(t, err.Error(), secret)
	}
}

func TestDoWithoutTimeSendsNothing(t *testing.T) {
	b := newBody()
	r := ask(t, t.Context(), "POST", "http://127.0.0.1:1/", "")
	r.Body = b
	_, err := curfewhttp.Do(t.Context(), budget.Inherited(), nil, r)
	assert.ErrorIs(t, err, budget.ErrNoDeadline)
	assert.Equal(t, 1, b.closed)
	var none context.Context
	assert.PanicsWithValue(t, "curfewhttp: Do: nil request", func() { curfewhttp.Do(t.Context(), budget.Within(1), nil, nil) })
	assert.PanicsWithValue(t, "curfewhttp: Do: nil context", func() { curfewhttp.Do(none, budget.Within(1), nil, r) })
}
