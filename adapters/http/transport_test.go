package curfewhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/scope"
)

// A recorder is the base of a Transport, and notes what would be sent.
type recorder struct {
	sent []*http.Request
	resp *http.Response
	err  error
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.sent = append(r.sent, req)
	if req.Body != nil {
		req.Body.Close()
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.resp != nil {
		return r.resp, nil
	}
	return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
}

// body is a request's body that counts how often it was closed.
type body struct {
	io.Reader
	closed int
}

func (b *body) Close() error { b.closed++; return nil }

func newBody() *body { return &body{Reader: strings.NewReader("order")} }

func post(t testing.TB, ctx context.Context, b io.ReadCloser) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inventory.test/reserve?token=secret", nil)
	require.NoError(t, err)
	r.Body = b
	return r
}

func TestTransportSendsWhatIsLeftLessTheSlush(t *testing.T) {
	fixed := func(d time.Duration) wire.Slush { return wire.Slush{Floor: d, Cap: d} }
	for _, tt := range []struct {
		name  string
		left  time.Duration
		slush wire.Slush
		want  string
	}{
		{"share", 300 * ms, wire.Slush{}, "285"},
		{"share, rounded down", 301 * ms, wire.Slush{}, "285"},
		{"cap", 10 * time.Second, wire.Slush{}, "9950"},
		{"floor", 20 * ms, wire.Slush{}, "18"},
		{"as little as can be", 3 * ms, wire.Slush{}, "1"},
		{"just less than two", 4*ms - 1, wire.Slush{}, "1"},
		{"own slush", time.Second, fixed(100 * ms), "900"},
		{"share of its own", time.Second, wire.Slush{Share: 0.5, Cap: time.Hour}, "500"},
		{"next to no slush", time.Second, wire.Slush{Cap: 1}, "1000"},
		{"more than the form can say", 200 * 24 * time.Hour, wire.Slush{}, "9999999999"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &recorder{}
				tr := &curfewhttp.Transport{Base: base, Slush: tt.slush}
				r := post(t, enter(t, context.Background(), budget.Within(tt.left)), newBody())
				_, err := tr.RoundTrip(r)
				require.NoError(t, err)
				require.Len(t, base.sent, 1)
				assert.Equal(t, []string{tt.want}, base.sent[0].Header.Values(curfewhttp.Header))
			})
		})
	}
}

// Nothing is sent that the peer would have to refuse, and nothing is omitted
// because it got small.
func TestTransportRefusesLocally(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		stdCancelled, cancel := context.WithCancelCause(context.Background())
		cancel(boom)
		oursCancelled, cancelOurs, err := budget.Enter(context.Background(), budget.Within(time.Hour))
		require.NoError(t, err)
		cancelOurs()
		expired := enter(t, context.Background(), budget.Within(time.Second).Named("route maximum"))
		time.Sleep(time.Second)
		synctest.Wait()

		for _, tt := range []struct {
			name  string
			ctx   context.Context
			slush wire.Slush
			kind  budget.Kind
			cause error // the very error
			text  string
		}{
			{"less than a millisecond after the slush", enter(t, context.Background(), budget.Within(3*ms-1).Named("route maximum")), wire.Slush{},
				budget.LocalBudgetRejected, nil, "budget: local budget rejected: limit route maximum 2.999999ms"},
			{"less than the slush", enter(t, context.Background(), budget.Within(ms).Named("route maximum")), wire.Slush{},
				budget.LocalBudgetRejected, nil, "budget: local budget rejected: limit route maximum 1ms"},
			{"less than its own slush", enter(t, context.Background(), budget.Within(time.Second).Named("route maximum")), wire.Slush{Floor: time.Second, Cap: time.Minute},
				budget.LocalBudgetRejected, nil, "budget: local budget rejected: limit route maximum 1s"},
			{"more slush than there is time", enter(t, context.Background(), budget.Within(time.Second).Named("route maximum")), wire.Slush{Floor: 1<<63 - 1},
				budget.LocalBudgetRejected, nil, "budget: local budget rejected: limit route maximum 1s"},
			{"a std deadline", onlyDeadline{context.Background(), time.Now().Add(ms)}, wire.Slush{},
				budget.LocalBudgetRejected, nil, "budget: local budget rejected: limit parent deadline"},
			{"a deadline that has passed, timer late", onlyDeadline{context.Background(), time.Now()}, wire.Slush{},
				budget.DeadlineExceeded, nil, "budget: deadline exceeded: limit parent deadline"},
			{"expired", expired, wire.Slush{}, budget.DeadlineExceeded, context.Cause(expired), "budget: deadline exceeded: limit route maximum 1s"},
			{"cancelled", oursCancelled, wire.Slush{}, budget.Cancelled, context.Cause(oursCancelled), "budget: cancelled"},
			{"std cancelled with a cause", stdCancelled, wire.Slush{}, budget.Failed, boom, "boom"},
		} {
			base := &recorder{}
			b := newBody()
			tr := &curfewhttp.Transport{Base: base, Slush: tt.slush}
			resp, err := tr.RoundTrip(post(t, tt.ctx, b))
			assert.Nil(t, resp, tt.name)
			assert.Equal(t, tt.kind, budget.KindOf(err), tt.name)
			assert.EqualError(t, err, tt.text, tt.name)
			if tt.cause != nil {
				assert.Equal(t, tt.cause, err, tt.name)
			}
			assert.Equal(t, 1, b.closed, "%s: a RoundTripper closes the body", tt.name)
			assert.Empty(t, base.sent, "%s: sent", tt.name)

			_, err = tr.RoundTrip(post(t, tt.ctx, nil))
			assert.Error(t, err, "%s: without a body", tt.name)

			// The same through a client: what it says of timeouts is right.
			_, err = (&http.Client{Transport: tr}).Do(post(t, tt.ctx, newBody()))
			var uerr *url.Error
			require.ErrorAs(t, err, &uerr, tt.name)
			assert.Equal(t, tt.kind, budget.KindOf(err), tt.name)
			assert.Equal(t, tt.kind.Sentinel() == context.DeadlineExceeded, uerr.Timeout(), tt.name)
			assert.Empty(t, base.sent, "%s: sent", tt.name)
		}
	})
}

// The caller's request is the caller's: not a header of it changes.
func TestTransportDoesNotTouchTheCallersRequest(t *testing.T) {
	long := enter(t, context.Background(), budget.Within(time.Hour))
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		header http.Header
		want   http.Header // what is sent; "*" is any number
	}{
		{"adds", long, http.Header{"A": {"1"}}, http.Header{"A": {"1"}, "X-Request-Deadline-Ms": {"*"}}},
		{"adds to nothing", long, http.Header{}, http.Header{"X-Request-Deadline-Ms": {"*"}}},
		{"adds to a nil header", long, nil, http.Header{"X-Request-Deadline-Ms": {"*"}}},
		{"replaces a stale one", long, http.Header{"X-Request-Deadline-Ms": {"7"}}, http.Header{"X-Request-Deadline-Ms": {"*"}}},
		{"replaces several", long, http.Header{"X-Request-Deadline-Ms": {"7", "8", "x"}}, http.Header{"X-Request-Deadline-Ms": {"*"}}},
		{"replaces an empty one", long, http.Header{"X-Request-Deadline-Ms": {""}}, http.Header{"X-Request-Deadline-Ms": {"*"}}},
		{"replaces one in another spelling", long, http.Header{"x-request-deadline-ms": {"7"}, "X-REQUEST-DEADLINE-MS": {"8"}}, http.Header{"X-Request-Deadline-Ms": {"*"}}},
		{"no deadline", context.Background(), http.Header{"A": {"1"}}, http.Header{"A": {"1"}}},
		{"no deadline, drops a stale one", context.Background(), http.Header{"A": {"1"}, "X-Request-Deadline-Ms": {"7"}}, http.Header{"A": {"1"}}},
		{"no deadline, drops an empty one", context.Background(), http.Header{"X-Request-Deadline-Ms": {""}}, http.Header{}},
		{"no deadline, drops another spelling", context.Background(), http.Header{"x-request-deadline-ms": {"7"}}, http.Header{}},
		{"below WithoutCancel", context.WithoutCancel(long), http.Header{}, http.Header{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := &recorder{}
			r := post(t, tt.ctx, nil)
			r.Header = tt.header
			before := tt.header.Clone()
			_, err := (&curfewhttp.Transport{Base: base}).RoundTrip(r)
			require.NoError(t, err)
			assert.Equal(t, before, tt.header)
			assert.Equal(t, tt.ctx, r.Context())
			got := base.sent[0].Header.Clone()
			if len(got["X-Request-Deadline-Ms"]) == 1 && len(got["X-Request-Deadline-Ms"][0]) == 7 { // 3599950
				got["X-Request-Deadline-Ms"] = []string{"*"}
			}
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.ctx.Done(), base.sent[0].Context().Done(), "the base sees the same end")
		})
	}
}

// A zero Transport uses http.DefaultTransport, and the base's errors and
// responses come back as they are.
func TestTransportPassesOnWhatTheBaseSays(t *testing.T) {
	boom := errors.New("boom")
	ctx := enter(t, context.Background(), budget.Within(time.Hour))
	_, err := (&curfewhttp.Transport{Base: &recorder{err: boom}}).RoundTrip(post(t, ctx, nil))
	assert.Equal(t, boom, err)
	want := &http.Response{StatusCode: 418, Body: http.NoBody}
	got, err := (&curfewhttp.Transport{Base: &recorder{resp: want}}).RoundTrip(post(t, ctx, nil))
	require.NoError(t, err)
	assert.Equal(t, 418, got.StatusCode)

	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get(curfewhttp.Header))
	}), false)
	resp, err := (&http.Client{Transport: &curfewhttp.Transport{}}).Do(s.request(t, ctx))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	left, err := wire.ParseMillis(string(text))
	require.NoError(t, err)
	assert.LessOrEqual(t, left, time.Hour-50*ms)
	assert.Greater(t, left, 50*time.Minute)
}

// Each request a client sends for one call, as when it is redirected, says what
// is left then.
func TestARedirectedRequestSaysWhatIsLeftThen(t *testing.T) {
	protocols(t, func(t *testing.T, start func(http.Handler) *server) {
		var said []time.Duration
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			left, err := wire.ParseMillis(r.Header.Get(curfewhttp.Header))
			assert.NoError(t, err)
			assert.Len(t, r.Header.Values(curfewhttp.Header), 1)
			said = append(said, left)
			if len(said) < 3 {
				<-time.After(5 * ms) // a server's own time
				http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
			}
		})
		s := start(mux)
		client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}}
		r := s.request(t, enter(t, context.Background(), budget.Within(time.Minute)), "7")
		resp, err := client.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Len(t, said, 3)
		assert.Greater(t, said[0], said[1])
		assert.Greater(t, said[1], said[2])
		assert.Greater(t, said[2], 30*time.Second)
		assert.Equal(t, "7", r.Header.Get(curfewhttp.Header), "the caller's")
	})
}

// Whatever the protocol and however far the answer had come, the error of a
// request whose context ended matches the right sentinel, says truly whether
// it is a timeout, and names the limit or the reason.
func TestErrorsOfARequestNameWhatEndedIt(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name     string
		sentinel error
		kind     budget.Kind
		text     string
		with     func(t *testing.T, use func(ctx context.Context, end func()))
	}{
		{"deadline", context.DeadlineExceeded, budget.DeadlineExceeded, "limit route maximum 60ms", func(t *testing.T, use func(context.Context, func())) {
			use(enter(t, context.Background(), budget.Within(60*ms).Named("route maximum")), func() {})
		}},
		{"sibling", context.Canceled, budget.SiblingFailed, "task payment: boom", func(t *testing.T, use func(context.Context, func())) {
			_ = scope.Run(context.Background(), "order", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
				fail := make(chan struct{})
				s.Go("payment", func(context.Context) error { <-fail; return boom })
				use(ctx, func() { close(fail) })
				return nil
			})
		}},
		{"cancel", context.Canceled, budget.Cancelled, "cancelled", func(t *testing.T, use func(context.Context, func())) {
			ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Hour))
			require.NoError(t, err)
			use(ctx, cancel)
		}},
		{"std parent cancelled", context.Canceled, budget.ParentCancelled, "boom", func(t *testing.T, use func(context.Context, func())) {
			parent, cancel := context.WithCancelCause(context.Background())
			use(enter(t, parent, budget.Within(time.Hour)), func() { cancel(boom) })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				arrived := make(chan struct{}, 1)
				release := make(chan struct{})
				s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						_, _ = io.WriteString(w, "the beginning")
						_ = http.NewResponseController(w).Flush()
					}
					arrived <- struct{}{}
					select {
					case <-r.Context().Done():
					case <-release:
					}
				}))
				defer close(release)
				client := &http.Client{Transport: &curfewhttp.Transport{Base: s.Client().Transport}}
				looksRight := func(t *testing.T, err error) {
					t.Helper()
					require.Error(t, err)
					assert.ErrorIs(t, err, tt.sentinel)
					assert.Equal(t, tt.kind, budget.KindOf(err))
					assert.ErrorContains(t, err, tt.text)
					var ne net.Error
					require.ErrorAs(t, err, &ne)
					assert.Equal(t, tt.sentinel == context.DeadlineExceeded, ne.Timeout())
					if tt.kind == budget.SiblingFailed {
						assert.ErrorIs(t, err, boom)
						assert.NotErrorIs(t, err, context.DeadlineExceeded)
					}
				}
				t.Run("headers", func(t *testing.T) {
					tt.with(t, func(ctx context.Context, end func()) {
						done := make(chan struct{})
						go func() {
							defer close(done)
							select {
							case <-arrived:
							case <-ctx.Done():
							}
							end()
						}()
						_, err := client.Do(s.request(t, ctx))
						<-done
						var uerr *url.Error
						require.ErrorAs(t, err, &uerr)
						assert.Equal(t, tt.sentinel == context.DeadlineExceeded, uerr.Timeout())
						looksRight(t, err)
					})
				})
				select {
				case <-arrived:
				default:
				}
				t.Run("body", func(t *testing.T) {
					tt.with(t, func(ctx context.Context, end func()) {
						r := s.request(t, ctx)
						r.Method = http.MethodPost
						resp, err := client.Do(r)
						if err != nil { // a busy machine: the deadline came first
							looksRight(t, err)
							return
						}
						defer resp.Body.Close()
						text := make([]byte, 13)
						_, err = io.ReadFull(resp.Body, text)
						assert.NoError(t, err)
						assert.Equal(t, "the beginning", string(text))
						end()
						_, err = io.ReadAll(resp.Body)
						looksRight(t, err)
					})
				})
			})
		})
	}
}

// A body that may be written to, as after an upgrade, still may.
func TestAnUpgradedConnectionCanBeWrittenTo(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	}), false)
	r := s.request(t, enter(t, context.Background(), budget.Within(time.Hour)))
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := (&curfewhttp.Transport{}).RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok, "%T", resp.Body)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	echo := make([]byte, 6)
	_, err = io.ReadFull(conn, echo)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", string(echo))
}
