package retrybudget_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
)

// The known buckets as their sources have them, so that the figures we compare with
// are theirs and not ours written twice. Each is played a story: S is a call that
// succeeds at once, F an attempt that failed and asks for a retry, R a retry that
// succeeded.
type rival interface {
	ask() bool
	success()
	retried()
}

// Finagle: a deposit is worth 1000, a withdrawal costs 1000/percentCanRetry, and a
// reserve of min × ttl withdrawals stands beside the window (RetryBudget.scala).
type finagle struct{ balance, deposit, cost int }

func newFinagle(percent float64, min, ttl int) *finagle {
	f := &finagle{cost: 1} // with nothing allowed a deposit is worth nothing
	if percent > 0 {
		f.deposit, f.cost = 1000, int(1000/percent)
	}
	f.balance = min * ttl * f.cost
	return f
}

func (f *finagle) success() { f.balance += f.deposit }
func (f *finagle) retried() { f.success() }
func (f *finagle) ask() bool {
	if f.balance < f.cost {
		return false
	}
	f.balance -= f.cost
	return true
}

// gRPC's retryThrottling in thousandths: a failure takes one, and there is a retry
// while more than half of max is left after that (proposal A6).
type throttle struct{ tokens, max, ratio int }

func (g *throttle) success() { g.tokens = min(g.tokens+g.ratio, g.max) }
func (g *throttle) retried() { g.success() }
func (g *throttle) ask() bool {
	g.tokens = max(g.tokens-1000, 0)
	return g.tokens > g.max/2
}

// The AWS SDK for Go v2 in its mode of 2026: a retry costs 14, or 5 when it was
// throttled, comes back when it succeeds, and a call that succeeds at once earns one
// (aws/retry/standard.go).
type aws struct{ tokens, cost int }

func (a *aws) success() { a.tokens = min(a.tokens+1, 500) }
func (a *aws) retried() { a.tokens = min(a.tokens+a.cost, 500) }
func (a *aws) ask() bool {
	if a.tokens < a.cost {
		return false
	}
	a.tokens -= a.cost
	return true
}

// ours is a Budget in the same story.
type ours struct{ *retrybudget.Budget }

func (o ours) success()  { o.Success() }
func (o ours) retried()  { o.Success() }
func (o ours) ask() bool { return o.TryTake() }

// play returns y or n for each F.
func play(r rival, story string) string {
	var answers strings.Builder
	for _, what := range story {
		switch what {
		case 'S':
			r.success()
		case 'R':
			r.retried()
		case 'F':
			answers.WriteByte("ny"[map[bool]int{true: 1}[r.ask()]])
		}
	}
	return answers.String()
}

func TestStoriesOfTheKnownBuckets(t *testing.T) {
	burst := func(n int, ratio float64) retrybudget.Config {
		if n == 0 {
			n = -1
		}
		return retrybudget.Config{Ratio: ratio, Burst: n, PerSecond: -1}
	}
	const (
		half   = "gRPC wants half of its bucket full first: a breaker. Ours pays with what was earned, a tenth of it from the first ten on"
		refund = "AWS gives a retry that went well its cost back, so a target that needs two attempts for every call never runs out. Ours earns the ratio, whichever attempt it was"
		upTo33 = "1000/0.3 is cut to 3333, which is 30.003 %; ours is 0.3 to the last token"
	)
	for _, tt := range []struct {
		name   string
		theirs rival
		ours   retrybudget.Config
		story  string
		want   string // theirs
		differ string // ours, where it differs
		why    string
	}{
		{"gRPC, full: four of five", &throttle{10_000, 10_000, 100}, burst(4, 0.1), "FFFFF", "yyyyn", "", ""},
		{"gRPC, from nothing: 60 successes", &throttle{0, 10_000, 100}, burst(0, 0.1), strings.Repeat("S", 60) + "F", "n", "y", half},
		{"gRPC, from nothing: 61 successes", &throttle{0, 10_000, 100}, burst(0, 0.1), strings.Repeat("S", 61) + "F", "y", "", ""},
		{"gRPC, from nothing: nine successes", &throttle{0, 10_000, 100}, burst(0, 0.1), strings.Repeat("S", 9) + "F", "n", "", ""},
		{"AWS, 14 left", &aws{14, 14}, burst(1, 1.0/14), "FF", "yn", "", ""},
		{"AWS, 20 left", &aws{20, 14}, burst(1, 1.0/14), "FF", "yn", "", ""},
		{"AWS, 30 left, retries that go well", &aws{30, 14}, burst(2, 1.0/14), "FFRFRF", "yyyy", "yynn", refund},
		{"AWS, 500: 35 for a fresh client", &aws{500, 14}, burst(35, 1.0/14), strings.Repeat("F", 36), strings.Repeat("y", 35) + "n", "", ""},
		{"AWS, throttled: 5 each, back with the success", &aws{5, 5}, burst(1, 0.2), "FRF", "yy", "yn", refund},
		{"AWS, fourteen calls that succeed at once", &aws{0, 14}, burst(0, 1.0/14), strings.Repeat("S", 14) + "FF", "yn", "", ""},
		{"Finagle, nothing allowed", newFinagle(0, 0, 10), burst(0, -1), "SSSSF", "n", "", ""},
		{"Finagle, a fresh default: its reserve", newFinagle(0.2, 10, 10), burst(100, 0.2), strings.Repeat("F", 101), strings.Repeat("y", 100) + "n", "", ""},
		{"Finagle, 30 % of 10", newFinagle(0.3, 0, 10), burst(0, 0.3), strings.Repeat("S", 10) + "FFFF", "yyyn", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.differ != "", tt.why != "", "a difference wants its reason")
			synctest.Test(t, func(t *testing.T) {
				assert.Equal(t, tt.want, play(tt.theirs, tt.story), "theirs")
				want := tt.want
				if tt.differ != "" {
					want = tt.differ
				}
				assert.Equal(t, want, play(ours{retrybudget.New("target", tt.ours)}, tt.story), "ours")
			})
		})
	}
	// 10,000 times a deposit and a try: trunc(10,000 × share) and the reserve.
	for _, tt := range []struct {
		share        float64
		theirs, ours int
		why          string
	}{
		{0.1, 1100, 1100, ""},
		{0.3, 3100, 3100, upTo33},
		{0.7, 7103, 7100, upTo33},
	} {
		synctest.Test(t, func(t *testing.T) {
			story := strings.Repeat("SF", 10_000)
			assert.InDelta(t, tt.theirs, strings.Count(play(newFinagle(tt.share, 10, 10), story), "y"), 1)
			got := strings.Count(play(ours{retrybudget.New("target", retrybudget.Config{Ratio: tt.share, PerSecond: 10, Burst: 100})}, story), "y")
			assert.Equal(t, tt.ours, got, "share %v", tt.share)
		})
	}
}
