package curfewhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// seen is what a handler finds in its request.
type seen struct {
	left  time.Duration
	limit string
}

// chain is how a cause names a peer's limit below a maximum of a minute.
func chain(left string) string {
	return "peer header X-Request-Deadline-Ms " + left + " < route maximum 1m0s"
}

func look(ctx context.Context) seen {
	left, _ := budget.Remaining(ctx)
	var c *budget.Cause
	if !errors.As(budget.Require(ctx, 1000*time.Hour), &c) {
		return seen{left, "none"}
	}
	return seen{left, c.Limit}
}

func TestTheHeaderIsReadAndItsLimitHolds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config curfewhttp.Config
		values []string
		left   time.Duration // what the handler has, at most and about
		limit  string
	}{
		{"none: the route's maximum", curfewhttp.Config{Max: 40 * time.Second}, nil, 40 * time.Second, "route default 40s"},
		{"none, and no maximum", curfewhttp.Config{}, nil, 2 * time.Second, "route default 2s"},
		{"some", curfewhttp.Config{Max: time.Minute}, []string{"30000"}, 30 * time.Second, "peer header X-Request-Deadline-Ms 30s < route maximum 1m0s"},
		{"some, and no maximum", curfewhttp.Config{}, []string{"1900"}, 1900 * ms, "peer header X-Request-Deadline-Ms 1.9s < route maximum 2s"},
		{"as much as the maximum", curfewhttp.Config{Max: time.Minute}, []string{"60000"}, time.Minute, "route maximum 1m0s"},
		{"more than the maximum", curfewhttp.Config{Max: time.Minute}, []string{"60001"}, time.Minute, "route maximum 1m0s"},
		{"more than any", curfewhttp.Config{Max: time.Minute}, []string{"9999999999"}, time.Minute, "route maximum 1m0s"},
		{"more than the maximum there is without one", curfewhttp.Config{}, []string{"28800000"}, 2 * time.Second, "route maximum 2s"},
		{"leading zeros", curfewhttp.Config{Max: time.Minute}, []string{"0000030000"}, 30 * time.Second, "peer header X-Request-Deadline-Ms 30s < route maximum 1m0s"},
		{"repeated, the strictest first", curfewhttp.Config{Max: time.Minute}, []string{"30000", "50000"}, 30 * time.Second, "peer header X-Request-Deadline-Ms 30s < route maximum 1m0s"},
		{"repeated, the strictest last", curfewhttp.Config{Max: time.Minute}, []string{"50000", "40000", "30000"}, 30 * time.Second, "peer header X-Request-Deadline-Ms 30s < route maximum 1m0s"},
		{"repeated, all above the maximum", curfewhttp.Config{Max: time.Minute}, []string{"500000", "400000"}, time.Minute, "route maximum 1m0s"},
		{"repeated, one above the maximum", curfewhttp.Config{Max: time.Minute}, []string{"500000", "30000"}, 30 * time.Second, "peer header X-Request-Deadline-Ms 30s < route maximum 1m0s"},
		{"enough to be useful", curfewhttp.Config{Max: time.Minute, Useful: 30 * time.Second}, []string{"30000"}, 30 * time.Second, "peer header X-Request-Deadline-Ms 30s < route maximum 1m0s"},
		{"all of the maximum is useful", curfewhttp.Config{Max: time.Minute, Useful: time.Minute}, nil, time.Minute, "route default 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				tt.config.Refused = func(_ *http.Request, why error) { t.Errorf("refused: %v", why) }
				got := make(chan seen, 1)
				s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got <- look(r.Context())
					assert.NotNil(t, r.Context().Value(http.ServerContextKey), "net/http's values are kept")
				}), tt.config))
				resp, _ := s.get(t, tt.values...)
				assert.Equal(t, 200, resp.StatusCode)
				handler := <-got
				assert.Equal(t, tt.limit, handler.limit)
				assert.LessOrEqual(t, handler.left, tt.left)
				assert.Greater(t, handler.left, tt.left-tt.left/2, "give or take a busy machine")
			})
		})
	}
}

// The arrival check: who cannot be served in time costs nothing.
func TestWhatCannotBeDoneInTimeIsRefusedBeforeAnyWork(t *testing.T) {
	route := curfewhttp.Config{Max: time.Minute, Useful: 30 * ms}
	expired := func(left string) error {
		return &budget.Cause{Kind: budget.ExpiredOnArrival, Limit: chain(left)}
	}
	tooShort := func(left string) error {
		return &budget.Cause{Kind: budget.LocalBudgetRejected, Limit: chain(left)}
	}
	malformed := func(value, why string) error {
		return &wire.FormatError{Header: curfewhttp.Header, Form: "remaining-ms", Value: value, Why: why}
	}
	const noDigits = "not a number of ASCII digits"
	const tooLong = "more than 10 digits: an instant, where the time left belongs?"
	for _, tt := range []struct {
		name   string
		values []string
		status int
		kind   string // in the answer
		why    error
	}{
		{"expired", []string{"0"}, 503, "expired_on_arrival", expired("0s")},
		{"expired, written long", []string{"0000000000"}, 503, "expired_on_arrival", expired("0s")},
		{"repeated, one expired", []string{"500", "0"}, 503, "expired_on_arrival", expired("0s")},
		{"repeated, the first expired", []string{"0", "500"}, 503, "expired_on_arrival", expired("0s")},
		{"too short", []string{"29"}, 503, "local_budget_rejected", tooShort("29ms")},
		{"one millisecond", []string{"1"}, 503, "local_budget_rejected", tooShort("1ms")},
		{"repeated, one too short", []string{"500", "29"}, 503, "local_budget_rejected", tooShort("29ms")},
		{"empty", []string{""}, 400, "", malformed("", "empty")},
		{"negative", []string{"-5"}, 400, "", malformed("-5", noDigits)},
		{"a sign", []string{"+5"}, 400, "", malformed("+5", noDigits)},
		{"a fraction", []string{"5.0"}, 400, "", malformed("5.0", noDigits)},
		{"a unit", []string{"10s"}, 400, "", malformed("10s", noDigits)},
		{"an exponent", []string{"1e3"}, 400, "", malformed("1e3", noDigits)},
		{"hexadecimal", []string{"0x10"}, 400, "", malformed("0x10", noDigits)},
		{"a list", []string{"500, 300"}, 400, "", malformed("500, 300", noDigits)},
		{"other digits", []string{"٣"}, 400, "", malformed("٣", noDigits)},
		{"words", []string{"soon"}, 400, "", malformed("soon", noDigits)},
		{"an instant", []string{"1700000000500"}, 400, "", malformed("1700000000500", tooLong)},
		{"eleven digits", []string{"12345678901"}, 400, "", malformed("12345678901", tooLong)},
		{"out of range", []string{"9223372036854775807"}, 400, "", malformed("9223372036854775807", tooLong)},
		{"very long", []string{strings.Repeat("9", 4000)}, 400, "", malformed(strings.Repeat("9", 32), tooLong)},
		{"repeated, one malformed", []string{"500", "x"}, 400, "", malformed("x", noDigits)},
		{"repeated, one expired and one malformed", []string{"0", "x"}, 400, "", malformed("x", noDigits)},
		{"repeated, one empty", []string{"500", ""}, 400, "", malformed("", "empty")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				type refusal struct {
					path string
					why  error
				}
				told := make(chan refusal, 2)
				config := route
				config.Refused = func(r *http.Request, why error) { told <- refusal{r.URL.Path, why} }
				s := start(curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					t.Error("the handler ran")
				}), config))
				resp, body := s.get(t, tt.values...)
				assert.Equal(t, tt.status, resp.StatusCode)
				assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
				if tt.kind == "" {
					assert.Contains(t, body, `"detail":"malformed X-Request-Deadline-Ms"`)
				} else {
					assert.Contains(t, body, `"kind":"`+tt.kind+`","not_started":true`)
				}
				assert.Empty(t, resp.Header.Values("Retry-After"), "there is no budget for a retry")
				require.Len(t, told, 1, "told once, and before the response")
				got := <-told
				assert.Equal(t, "/", got.path)
				assert.Equal(t, tt.why, got.why)
			})
		})
	}
}

// Without a Useful one millisecond is enough to begin with.
func TestWithoutAUsefulMinimumOnlyTheExpiredIsRefused(t *testing.T) {
	ran := 0
	h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }), curfewhttp.Config{})
	for value, want := range map[string]int{"1": 200, "0": 503} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(curfewhttp.Header, value)
		h.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, value)
	}
	assert.Equal(t, 1, ran)
}

// A hook is not demanded.
func TestRefusalWithoutAHook(t *testing.T) {
	h := curfewhttp.Handler(http.NotFoundHandler(), curfewhttp.Config{Useful: ms})
	for value, want := range map[string]int{"0": 503, "x": 400, "1": 404} {
		synctest.Test(t, func(t *testing.T) { // in which the millisecond does not run out
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
			r.Header.Set(curfewhttp.Header, value)
			h.ServeHTTP(w, r)
			assert.Equal(t, want, w.Code, value)
		})
	}
}

// What is above a request, such as a deadline that a middleware set, or the end
// of a server's base context, is told apart from the peer.
func TestWhatIsAboveTheRequestIsHeeded(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	expired := onlyDeadline{context.Background(), time.Now().Add(-time.Second)}
	short := enter(t, context.Background(), budget.Within(time.Minute).Named("gateway"))
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		want  int
		kind  budget.Kind
		limit string
	}{
		{"cancelled", gone, 499, budget.ClientCancelled, ""},
		{"expired", expired, 503, budget.ExpiredOnArrival, "parent deadline < route default 10m0s"},
		{"tighter", short, 200, budget.None, "gateway 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind := budget.None
			h := curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				assert.Equal(t, tt.limit, look(r.Context()).limit)
			}), curfewhttp.Config{Max: 10 * time.Minute, Refused: func(_ *http.Request, why error) {
				kind = budget.KindOf(why)
				assert.Equal(t, tt.limit, why.(*budget.Cause).Limit)
			}})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(tt.ctx, http.MethodGet, "/", nil))
			assert.Equal(t, tt.want, w.Code)
			assert.Equal(t, tt.kind, kind)
		})
	}
}

type onlyDeadline struct {
	context.Context
	deadline time.Time
}

func (c onlyDeadline) Deadline() (time.Time, bool) { return c.deadline, true }

// A handler below another one, as a route below an application's default, can
// only tighten.
func TestAHandlerBelowAnotherOnlyTightens(t *testing.T) {
	var got []seen
	note := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, look(r.Context())) })
	for _, inner := range []time.Duration{time.Minute, 20 * time.Minute} {
		h := curfewhttp.Handler(curfewhttp.Handler(note, curfewhttp.Config{Max: inner}), curfewhttp.Config{Max: 10 * time.Minute})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	require.Len(t, got, 2)
	assert.Equal(t, "route default 1m0s < route default 10m0s", got[0].limit)
	assert.Equal(t, "route default 10m0s", got[1].limit)
}

func TestMistakesInAConfigPanicWithTheNameOfTheField(t *testing.T) {
	ok := http.NotFoundHandler()
	for _, tt := range []struct {
		text   string
		h      http.Handler
		config curfewhttp.Config
	}{
		{"curfewhttp: Handler: nil handler", nil, curfewhttp.Config{}},
		{"curfewhttp: Handler: negative Max -1ns", ok, curfewhttp.Config{Max: -1}},
		{"curfewhttp: Handler: negative Useful -1s", ok, curfewhttp.Config{Useful: -time.Second}},
		{"curfewhttp: Handler: Useful 3s is above Max 2s", ok, curfewhttp.Config{Useful: 3 * time.Second}},
		{"curfewhttp: Handler: Useful 3s is above Max 1s", ok, curfewhttp.Config{Max: time.Second, Useful: 3 * time.Second}},
	} {
		t.Run(tt.text, func(t *testing.T) {
			defer func() { assert.Contains(t, recover(), tt.text) }()
			curfewhttp.Handler(tt.h, tt.config)
			t.Error("no panic")
		})
	}
}
