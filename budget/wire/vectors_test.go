package wire_test

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// load reads a file of testdata into v.
func load(t testing.TB, name string, v any) {
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, v))
}

type vector struct {
	Form, Input, Result, Note, Ns, Ms string
	NowEpochMs                        string `json:"now_epoch_ms"`
	SkewLimitMs                       string `json:"skew_limit_ms"`
}

// form returns the form of v and the instant at which its value arrived.
func (v vector) form(t testing.TB) (wire.Form, time.Time) {
	now := time.Now()
	if v.NowEpochMs != "" {
		now = time.UnixMilli(number(t, v.NowEpochMs))
	}
	var skew time.Duration
	if v.SkewLimitMs != "" {
		skew = time.Duration(number(t, v.SkewLimitMs)) * ms
	}
	return formNamed(t, v.Form, skew), now
}

func formNamed(t testing.TB, name string, skew time.Duration) wire.Form {
	switch name {
	case "grpc-timeout":
		return wire.GRPC()
	case "connect-timeout-ms":
		return wire.Millis("Connect-Timeout-Ms")
	case "remaining-ms":
		return wire.Millis("X-Request-Deadline-Ms")
	case "envoy-expected-rq-timeout-ms":
		return wire.Millis("X-Envoy-Expected-Rq-Timeout-Ms").ReverseZero()
	case "context-ttl-ms":
		return wire.YARPC()
	case "epoch-ms", "epoch-ms-with-remaining":
		return wire.EpochMillis("X-Deadline", skew)
	case "epoch-ns-pair":
		return wire.EpochNanos("Finagle-Ctx-com.twitter.finagle.Deadline", skew)
	case "x-request-start":
		return wire.RequestStart("X-Request-Start")
	}
	t.Fatalf("no form %q", name)
	panic("unreachable")
}

func number(t testing.TB, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	require.NoError(t, err)
	return n
}

func TestParseVectors(t *testing.T) {
	var all struct{ Parse []vector }
	load(t, "wire.json", &all)
	require.Len(t, all.Parse, 90)
	for _, v := range all.Parse {
		t.Run(v.Form+" "+v.Input, func(t *testing.T) {
			form, now := v.form(t)
			got, err := form.Parse(v.Input, now)
			if v.Result == "malformed" {
				var fe *wire.FormatError
				require.ErrorAs(t, err, &fe)
				assert.Equal(t, wire.Peer{}, got, "a malformed value is never a value")
				assert.Equal(t, form.Header(), fe.Header)
				assert.True(t, strings.HasPrefix(err.Error(), "wire: malformed "), err)
				if strings.Contains(v.Note, "looks like an epoch") {
					assert.ErrorContains(t, err, "an instant")
				}
				return
			}
			require.NoError(t, err)
			want := wire.Peer{Limited: true, Header: form.Header()}
			switch v.Result {
			case "duration":
				want.Left = time.Duration(number(t, v.Ns))
			case "skewed":
				want.Left, want.Skewed = time.Duration(number(t, v.Ns)), true
			case "expired":
			case "unlimited_by_peer":
				want = wire.Peer{}
			case "queued":
				want = wire.Peer{Waited: time.Duration(number(t, v.Ms)) * ms}
			default:
				t.Fatalf("result %q", v.Result)
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestEncodeVectors(t *testing.T) {
	var all struct {
		Encode []struct {
			Form        string
			RemainingNs string `json:"remaining_ns"`
			SlushNs     string `json:"slush_ns"`
			Output      *string
		}
	}
	load(t, "wire.json", &all)
	require.Len(t, all.Encode, 19)
	for _, v := range all.Encode {
		t.Run(v.Form+" "+v.RemainingNs+" less "+v.SlushNs, func(t *testing.T) {
			left, slush := time.Duration(number(t, v.RemainingNs)), time.Duration(number(t, v.SlushNs))
			if slush > 0 { // the same by the type that takes it off
				assert.Equal(t, slush, wire.Slush{Floor: slush, Cap: slush}.Of(left))
			}
			got, ok := formNamed(t, v.Form, 0).Format(left-slush, time.Now())
			if v.Output == nil {
				assert.False(t, ok)
				assert.Empty(t, got, "there is nothing that could be sent by mistake")
				return
			}
			assert.True(t, ok)
			assert.Equal(t, *v.Output, got)
		})
	}
}

type seeds struct {
	Transit []struct {
		Remaining, Slush, Transit, Sent int64
		TrueRemaining                   int64 `json:"true_remaining_on_arrival"`
		ErrsEarlyBy                     int64 `json:"callee_errs_early_by"`
	}
	Slush struct {
		PerHopMs  []int64 `json:"per_hop_ms"`
		Hops      int
		RemovedMs []int64 `json:"removed_ms"`
		Share     []float64
	}
	SkewMs        []int64 `json:"skew_ms"`
	UsefulMinimum []struct {
		Remaining, Minimum int64
		Outcome            string
	} `json:"useful_minimum"`
}

func readSeeds(t testing.TB) (s seeds) {
	load(t, "seeds.json", &s)
	require.NotEmpty(t, s.Transit)
	require.NotEmpty(t, s.Slush.PerHopMs)
	require.Len(t, s.SkewMs, 6)
	require.Len(t, s.UsefulMinimum, 3)
	return s
}

// A receiver never gets more than the sender had: it errs early, by the slush
// less what the way took.
func TestTransit(t *testing.T) {
	form := wire.Millis("X-Request-Deadline-Ms")
	for _, v := range readSeeds(t).Transit {
		slush := wire.Slush{Floor: time.Duration(v.Slush) * ms, Cap: time.Duration(v.Slush) * ms}
		left := time.Duration(v.Remaining) * ms
		sent, ok := form.Format(left-slush.Of(left), time.Now())
		require.True(t, ok)
		assert.Equal(t, strconv.FormatInt(v.Sent, 10), sent)
		got, err := form.Parse(sent, time.Now())
		require.NoError(t, err)
		onArrival := left - time.Duration(v.Transit)*ms
		assert.Equal(t, time.Duration(v.TrueRemaining)*ms, onArrival)
		assert.Equal(t, time.Duration(v.ErrsEarlyBy)*ms, onArrival-got.Left)
	}
}

// What several hops take off, at so much per hop.
func TestSlushOverSeveralHops(t *testing.T) {
	v := readSeeds(t).Slush
	for i, perHop := range v.PerHopMs {
		slush := wire.Slush{Floor: time.Duration(perHop) * ms, Cap: time.Duration(perHop) * ms}
		left := 500 * ms // of which that is the share given
		for range v.Hops {
			left -= slush.Of(left)
		}
		removed := 500*ms - left
		assert.Equal(t, time.Duration(v.RemovedMs[i])*ms, removed)
		assert.InDelta(t, v.Share[i], float64(removed)/float64(500*ms), 1e-9)
	}
}

// Below the useful minimum a request is refused, and what is left is never raised.
func TestTheUsefulMinimumRefusesAndNeverRaises(t *testing.T) {
	for _, v := range readSeeds(t).UsefulMinimum {
		synctest.Test(t, func(t *testing.T) {
			headers := map[string][]string{"grpc-timeout": {strconv.FormatInt(v.Remaining, 10) + "m"}}
			peer, err := wire.Read(func(name string) []string { return headers[name] }, time.Now(), wire.GRPC())
			require.NoError(t, err)
			limit := peer.Limit(budget.Within(time.Minute).Named("route maximum")).Require(time.Duration(v.Minimum) * ms)
			ctx, cancel, err := budget.Enter(context.Background(), limit)
			defer cancel()
			want := map[string]budget.Kind{"run": budget.None, "local_budget_rejected": budget.LocalBudgetRejected}[v.Outcome]
			assert.Equal(t, want, budget.KindOf(err))
			if left, _ := budget.Remaining(ctx); err == nil {
				assert.Equal(t, time.Duration(v.Remaining)*ms, left)
			}
		})
	}
}
