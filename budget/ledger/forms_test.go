package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
)

// account is an account with a bit of everything, in a bubble.
func account(t *testing.T) *ledger.Ledger {
	_, l := ledger.New(enter(t, context.Background(), budget.Within(850*ms).Named("gateway")), "checkout")
	l.Stage(ledger.Queue, 3*ms)
	time.Sleep(12 * ms)
	inventory, hedge := l.Call("inventory", 796*ms), l.Call("inventory", 0)
	inventory.Stage(ledger.PoolWait, 2*ms)
	inventory.Stage(ledger.Connect, 5*ms)
	time.Sleep(40*ms + 1234*time.Microsecond)
	inventory.Done(nil)
	hedge.Done(&budget.Cause{Kind: budget.RaceLost})
	l.Call("payment", 755*ms)
	time.Sleep(800 * ms)
	l.Close(&budget.Cause{Kind: budget.DeadlineExceeded, Limit: "gateway 850ms"})
	return l
}

func TestTheLineHoldsTheWholeAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, "checkout: exceeded_here in 853ms of 850ms, local 12ms, queue 3ms, past the deadline 3.23ms, limited by gateway 850ms"+
			"; inventory ok in 41.2ms of 796ms, pool_wait 2ms, connect 5ms; inventory race_lost in 41.2ms; payment open in 800ms of 755ms", account(t).String())
	})
}

// The attributes have curfew's telemetry names.
func TestTheAttributesHoldTheWholeAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		slog.New(slog.NewJSONHandler(&out, nil)).Info("request", "curfew", account(t))
		var got struct{ Curfew map[string]any }
		require.NoError(t, json.Unmarshal(out.Bytes(), &got))
		assert.Equal(t, map[string]any{
			"hop": "checkout", "total_ms": 853.234, "queue_ms": 3.0, "wasted_ms": 3.234,
			"deadline":  map[string]any{"outcome": "exceeded_here", "local_ms": 12.0, "remaining_in_ms": 850.0, "limited_by": "gateway 850ms"},
			"cancelled": map[string]any{"kind": "deadline_exceeded", "route": "checkout"},
			"call_1": map[string]any{"target": "inventory", "outcome": "ok", "took_ms": 41.234, "pool_wait_ms": 2.0, "connect_ms": 5.0,
				"deadline": map[string]any{"remaining_out_ms": 796.0}},
			"call_2": map[string]any{"target": "inventory", "outcome": "race_lost", "took_ms": 41.234},
			"call_3": map[string]any{"target": "payment", "outcome": "open", "took_ms": 800.0, "deadline": map[string]any{"remaining_out_ms": 755.0}},
		}, got.Curfew)

		out.Reset()
		slog.New(slog.NewTextHandler(&out, nil)).Info("request", "curfew", account(t))
		assert.Contains(t, out.String(), " curfew.deadline.remaining_in_ms=850 ")
		assert.Contains(t, out.String(), " curfew.call_1.deadline.remaining_out_ms=796 ")
	})
}

func TestServerTimingHoldsTheWholeAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := account(t).ServerTiming()
		assert.Equal(t, `total;desc="checkout";dur=853.234, remaining_in;dur=850, local;dur=12, queue;dur=3`+
			`, call;desc="inventory";dur=41.234, pool_wait;desc="inventory";dur=2, connect;desc="inventory";dur=5`+
			`, call;desc="inventory";dur=41.234, call;desc="payment";dur=800, outcome;desc="exceeded_here"`, got)
		assert.True(t, isServerTiming(got))
	})
}

// isServerTiming follows the header's grammar: metrics of a token and
// parameters, whose values are tokens or quoted strings.
func isServerTiming(value string) bool { return serverTiming.MatchString(value) }

var serverTiming = func() *regexp.Regexp {
	const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	const metric = token + `(;` + token + `=(` + token + `|"[ !#-\[\]-~]*"))*`
	return regexp.MustCompile(`^` + metric + `(, ` + metric + `)*$`)
}()

// forms are all that an account of one call to target, with this limit, says.
func forms(target, limit string) string {
	_, l := ledger.New(context.Background(), target)
	l.Call(target, ms).Done(errors.New("dial tcp: password s3cret is wrong"))
	l.Close(&budget.Cause{Kind: budget.Failed, Limit: limit, Err: errors.New("s3cret")})
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("request", "curfew", l)
	return l.String() + "\n" + l.ServerTiming() + "\n" + out.String()
}

// A header that is too large costs the whole answer.
func TestServerTimingIsBoundedAndSaysWhatItLeavesOut(t *testing.T) {
	for _, calls := range []int{1, 5, 9, 63, 64, 65, 200} {
		for _, stages := range []int{0, 4} {
			_, l := ledger.New(context.Background(), "checkout")
			for range calls {
				c := l.Call(strings.Repeat("a", 64), time.Second)
				for s := range stages {
					c.Stage(ledger.Stage(s), 1234567)
				}
				c.Done(nil)
			}
			value := l.ServerTiming()
			assert.LessOrEqual(t, len(value), 2048)
			assert.True(t, isServerTiming(value), value)
			listed, more := strings.Count(value, "call;"), 0
			if _, text, ok := strings.Cut(value, "more;desc=\""); ok {
				_, err := fmt.Sscanf(text, "%d calls\"", &more)
				assert.NoError(t, err)
			}
			assert.Equal(t, calls, listed+more)
			assert.True(t, strings.HasSuffix(value, `, outcome;desc="open"`), value)
		}
	}
}

func TestAnAccountHoldsNoSecrets(t *testing.T) {
	for target, want := range map[string]string{
		"inventory":           "inventory",
		"orders-db (replica)": "orders-db (replica)",
		"[::1]:5432":          "[::1]:5432",
		"GET /orders/{id}":    "GET /orders/{id}",
		"https://shop.example/orders?token=s3cret":        "https://shop.example/orders",
		"https://shop.example/orders#s3cret":              "https://shop.example/orders",
		"https://ann:s3cret@shop.example/orders":          "https://shop.example/orders",
		"https://ann:s3cret@shop.example/orders?a=s3cret": "https://shop.example/orders",
		"postgres://ann:a/s3cret@db:5432/shop":            "postgres://db:5432/shop",
		"ann:s3cret@tcp(db:3306)/shop?timeout=1s":         "tcp(db:3306)/shop",
		"ann:p@s3cret@tcp(db:3306)/shop":                  "tcp(db:3306)/shop",
		"ann:s3cret://x@db":                               "db", // no scheme, for all that it looks like one
		"postgres://ann:s3?cret@db/shop":                  "redacted",
		"https://shop.example/orders?mail=s3cret@home":    "redacted",
		"host=db user=ann password=s3cret":                "redacted",
		"https://shop.example/;jsessionid=s3cret":         "redacted",
		`{"host":"db","password":"s3cret"}`:               "redacted",
		"tcp:db;Password:s3cret":                          "redacted",
		"ann:s3cret%40db":                                 "redacted",
		"password-reset: {id}":                            "password-reset: {id}",
		"":                                                "unnamed",
		"?s3cret":                                         "unnamed",
		"a\r\nX-Evil: \"1\"":                              "a__X-Evil: _1_",
		"é":                                               "_",
		strings.Repeat("a", 65):                           strings.Repeat("a", 64),
	} {
		_, l := ledger.New(context.Background(), target)
		l.Call(target, 0)
		assert.Equal(t, want, l.Report().Hop, "%q", target)
		assert.Equal(t, want, l.Report().Calls[0].Target, "%q", target)
		text := forms(target, "limit")
		assert.NotContains(t, text, "s3cret", "%q", target)
	}
}

func FuzzForms(f *testing.F) {
	f.Add("inventory", "gateway 850ms")
	f.Add("https://ann:s3cret@shop.example/orders?a=s3cret", "peer header 1s < \"route\" 2s\n")
	f.Add("\x00\xff;,\"\\", "\x00\xff;,\"\\")
	f.Fuzz(func(t *testing.T, target, limit string) {
		text := forms(target, limit)
		lines := strings.Split(text, "\n")
		if len(lines) != 4 {
			t.Fatalf("more than a line each: %q", lines)
		}
		if !isServerTiming(lines[1]) {
			t.Fatalf("no Server-Timing: %q", lines[1])
		}
		if !json.Valid([]byte(lines[2])) {
			t.Fatalf("no JSON: %q", lines[2])
		}
		_, l := ledger.New(context.Background(), target)
		switch hop := l.Report().Hop; {
		case hop == "", len(hop) > 64, strings.ContainsAny(hop, "?#@=\"\\"):
			t.Fatalf("%q is written as %q", target, hop)
		}
	})
}
