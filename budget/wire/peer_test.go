package wire_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

var dialects = []wire.Form{
	wire.GRPC(), wire.Millis("X-Request-Deadline-Ms"), wire.Millis("X-Envoy-Expected-Rq-Timeout-Ms").ReverseZero(),
	wire.YARPC(), wire.EpochMillis("X-Deadline", time.Minute), wire.RequestStart("X-Request-Start"),
}

var routeMaximum = budget.Within(2 * time.Second).Named("route maximum")

func TestTheStrictestValidValueCountsAndIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		want   wire.Peer
		err    string
		cause  string // of work under it that does not end by itself
	}{
		{"nothing", http.Header{}, wire.Peer{}, "", "limit route maximum 2s"},
		{"one", http.Header{"Grpc-Timeout": {"300m"}}, wire.Peer{Limited: true, Left: 300 * ms, Header: "grpc-timeout"}, "",
			"limit peer header grpc-timeout 300ms < route maximum 2s"},
		{"two dialects", http.Header{"Grpc-Timeout": {"5S"}, "X-Request-Deadline-Ms": {"200"}}, wire.Peer{Limited: true, Left: 200 * ms, Header: "X-Request-Deadline-Ms"}, "",
			"limit peer header X-Request-Deadline-Ms 200ms < route maximum 2s"},
		{"repeated", http.Header{"X-Request-Deadline-Ms": {"700", "100", "300"}}, wire.Peer{Limited: true, Left: 100 * ms, Header: "X-Request-Deadline-Ms"}, "",
			"limit peer header X-Request-Deadline-Ms 100ms < route maximum 2s"},
		{"above the local maximum", http.Header{"Grpc-Timeout": {"8H"}}, wire.Peer{Limited: true, Left: 8 * time.Hour, Header: "grpc-timeout"}, "",
			"limit route maximum 2s"},
		{"unlimited by one, limited by the other", http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"0"}, "Grpc-Timeout": {"99999999H", "250m"}},
			wire.Peer{Limited: true, Left: 250 * ms, Header: "grpc-timeout"}, "", "limit peer header grpc-timeout 250ms < route maximum 2s"},
		{"unlimited by all", http.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"0"}, "Grpc-Timeout": {"99999999H"}, "Context-Ttl-Ms": {"9223372036854775"}},
			wire.Peer{}, "", "limit route maximum 2s"},
		{"one malformed", http.Header{"X-Request-Deadline-Ms": {"10s", "300", "1e3"}, "Grpc-Timeout": {"1S"}}, wire.Peer{Limited: true, Left: 300 * ms, Header: "X-Request-Deadline-Ms", Malformed: 2},
			`wire: malformed remaining-ms in X-Request-Deadline-Ms "10s": not a number of ASCII digits`, "limit peer header X-Request-Deadline-Ms 300ms < route maximum 2s"},
		{"all malformed", http.Header{"Grpc-Timeout": {"1s"}}, wire.Peer{Malformed: 1},
			`wire: malformed grpc-timeout in grpc-timeout "1s": no unit of H, M, S, m, u, n at its end`, "limit route maximum 2s"},
		{"present and empty", http.Header{"X-Request-Deadline-Ms": {""}}, wire.Peer{Malformed: 1},
			`wire: malformed remaining-ms in X-Request-Deadline-Ms "": empty`, "limit route maximum 2s"},
		{"skewed", http.Header{"X-Deadline": {"1700003600500;500"}, "Grpc-Timeout": {"1S"}}, wire.Peer{Limited: true, Left: 500 * ms, Header: "X-Deadline", Skewed: true}, "",
			"limit peer header X-Deadline 500ms < route maximum 2s"},
		{"waited", http.Header{"X-Request-Start": {"t=1699999999960", "t=1699999999990"}, "X-Request-Deadline-Ms": {"300"}},
			wire.Peer{Limited: true, Left: 260 * ms, Header: "X-Request-Deadline-Ms", Waited: 40 * ms}, "",
			"limit peer header X-Request-Deadline-Ms 260ms < route maximum 2s (40ms spent)"},
		{"an instant went on while it waited", http.Header{"X-Request-Start": {"t=1699999999960"}, "X-Deadline": {"1700000000300"}},
			wire.Peer{Limited: true, Left: 300 * ms, Header: "X-Deadline", Waited: 40 * ms}, "",
			"limit peer header X-Deadline 300ms < route maximum 2s (40ms spent)"},
		{"waited without a limit", http.Header{"X-Request-Start": {"t=1699999999500"}}, wire.Peer{Waited: 500 * ms}, "",
			"limit route maximum 2s (500ms spent)"},
		{"a proxy from the future", http.Header{"X-Request-Start": {"t=1700000005000"}, "X-Request-Deadline-Ms": {"300"}},
			wire.Peer{Limited: true, Left: 300 * ms, Header: "X-Request-Deadline-Ms", Malformed: 1}, "", "limit peer header X-Request-Deadline-Ms 300ms < route maximum 2s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peer, err := wire.Read(tt.header.Values, fuzzNow, dialects...)
			assert.Equal(t, tt.want, peer)
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, tt.err)
			}
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel, err := budget.Enter(context.Background(), peer.Limit(routeMaximum))
				defer cancel()
				require.NoError(t, err)
				<-ctx.Done()
				assert.EqualError(t, context.Cause(ctx), "budget: deadline exceeded: "+tt.cause)
				most := 2*time.Second - peer.Waited
				if peer.Limited {
					most = min(most, peer.Left)
				}
				assert.Equal(t, most, time.Since(start))
			})
		})
	}
}

func TestAnExpiredRequestDoesNoWork(t *testing.T) {
	for _, header := range []http.Header{
		{"Grpc-Timeout": {"0n"}}, {"X-Request-Deadline-Ms": {"0"}}, {"X-Deadline": {"1699999999999"}}, {"Context-Ttl-Ms": {"0"}},
		{"X-Request-Deadline-Ms": {"30"}, "X-Request-Start": {"t=1699999999960"}}, {"X-Request-Start": {"t=1699999998000"}},
	} {
		peer, err := wire.Read(header.Values, fuzzNow, dialects...)
		require.NoError(t, err)
		_, cancel, err := budget.Enter(context.Background(), peer.Limit(routeMaximum))
		cancel()
		assert.Equal(t, budget.ExpiredOnArrival, budget.KindOf(err), "%v", header)
	}
}

// The other settings of the local maximum hold for the peer's share of it too.
func TestThePeersLimitKeepsWhatTheMaximumKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := wire.Peer{Limited: true, Left: 300 * ms, Header: "grpc-timeout"}.Limit(routeMaximum.Reserve(50 * ms).Cleanup(20 * ms).Require(230 * ms))
		ctx, cancel, err := budget.Enter(context.Background(), limit)
		defer cancel()
		require.NoError(t, err)
		left, _ := budget.Remaining(ctx)
		assert.Equal(t, 230*ms, left)
		_, _, err = budget.Enter(context.Background(), limit.Require(230*ms+1))
		assert.EqualError(t, err, "budget: local budget rejected: limit peer header grpc-timeout 300ms < route maximum 2s")
	})
}

// The time left that stands beside an instant does not run while a request waits, so
// where it is what counts, the time in the queue is taken off.
func TestTheTimeInAQueueCountsWhateverOfAnInstantIsBelieved(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for value, want := range map[string]wire.Peer{
		"1700000000460;500":                       {Left: 460 * ms},               // clocks that agree
		"1700000000440;500":                       {Left: 440 * ms},               // and 20 ms on the way
		"1700000030500;500":                       {Left: 460 * ms},               // the sender's is ahead, within the limit
		"1700003600500;500":                       {Left: 460 * ms, Skewed: true}, // and beyond
		"1699996400500;500":                       {Left: 460 * ms, Skewed: true}, // behind, beyond it
		"1700003600500;30":                        {Left: 0, Skewed: true},        // it waited longer than that
		"1700000000500":                           {Left: 500 * ms},               // an instant alone went on
		"1700000030000000000 1700000030500000000": {Left: 460 * ms},
		"1700003600000000000 1700003600500000000": {Left: 460 * ms, Skewed: true},
	} {
		form := wire.EpochMillis("X-Deadline", time.Minute)
		if strings.Contains(value, " ") {
			form = wire.EpochNanos("X-Deadline", time.Minute)
		}
		header := http.Header{"X-Request-Start": {"t=1699999999960"}, "X-Deadline": {value}}
		p, err := wire.Read(header.Values, now, form, wire.RequestStart("X-Request-Start"))
		assert.NoError(t, err)
		want.Limited, want.Header, want.Waited = true, "X-Deadline", 40*ms
		assert.Equal(t, want, p, value)
	}
}

// A form that somebody forgot to fill in is found by the first request, and not by
// the first that has a deadline.
func TestTheZeroFormIsFoundWithoutAValue(t *testing.T) {
	assert.PanicsWithValue(t, "wire: the zero Form is not a form: use GRPC, Millis or another of them", func() {
		_, _ = wire.Read(http.Header{}.Values, time.Now(), wire.GRPC(), wire.Form{})
	})
}

func TestMistakesInAFormPanicWithTheNameOfTheArgument(t *testing.T) {
	for want, f := range map[string]func(){
		"wire: remaining-ms: empty header":             func() { wire.Millis("") },
		"wire: epoch-ms: empty header":                 func() { wire.EpochMillis("", 0) },
		"wire: epoch-ms: negative skewLimit -1ns":      func() { wire.EpochMillis("A", -1) },
		"wire: epoch-ns: negative skewLimit -1s":       func() { wire.EpochNanos("A", -time.Second) },
		"wire: request-start: empty header":            func() { wire.RequestStart("") },
		"wire: ReverseZero: epoch-ms has no zero":      func() { wire.EpochMillis("A", 0).ReverseZero() },
		"wire: ReverseZero: request-start has no zero": func() { wire.RequestStart("A").ReverseZero() },
	} {
		assert.PanicsWithValue(t, want, f)
	}
	for _, f := range []func(){
		func() { _, _ = wire.Form{}.Parse("1", fuzzNow) },
		func() { wire.Form{}.Format(ms, fuzzNow) },
		func() { wire.Form{}.ReverseZero() },
		func() { _, _ = wire.Read(func(string) []string { return []string{"1"} }, fuzzNow, wire.Form{}) },
	} {
		assert.PanicsWithValue(t, "wire: the zero Form is not a form: use GRPC, Millis or another of them", f)
	}
	assert.Equal(t, "X-Deadline (epoch-ms)", wire.EpochMillis("X-Deadline", 0).String())
}

func BenchmarkRead(b *testing.B) {
	header := http.Header{"Grpc-Timeout": {"300m"}, "X-Request-Deadline-Ms": {"250"}}
	b.ReportAllocs()
	for b.Loop() {
		if p, err := wire.Read(header.Values, fuzzNow, dialects...); err != nil || p.Left != 250*ms {
			b.Fatal(p, err)
		}
	}
}
