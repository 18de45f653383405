package latency_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/internal/stress"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

var (
	timedOut = &budget.Cause{Kind: budget.DeadlineExceeded}
	lost     = &budget.Cause{Kind: budget.RaceLost}
)

// A sample is one attempt, and a plain the twin of a Snapshot that keeps all.
type sample struct {
	took time.Duration
	cut  bool
}

type plain []sample

func (s sample) rank() int {
	if s.cut {
		return 1
	}
	return 0
}

// sort puts p in the order of time, answers before cuts.
func (p plain) sort() {
	slices.SortFunc(p, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.took, b.took), cmp.Compare(a.rank(), b.rank()))
	})
}

// quantile of sorted samples is the Kaplan-Meier estimate in its textbook form, over the samples
// themselves: at each, of the number still running, one answer leaves the curve.
func (p plain) quantile(q float64) (time.Duration, bool) {
	left := 1.0
	for i, s := range p {
		running := len(p) - i
		if running < 10 {
			return 0, false
		}
		if !s.cut {
			left *= 1 - 1/float64(running)
		}
		if left <= (1-q)*(1+1e-9) {
			return s.took, true
		}
	}
	return 0, false
}

// record counts p in a new Observed, whose window does not end meanwhile.
func (p plain) record() *latency.Observed {
	o := latency.New(latency.Config{Window: time.Hour})
	for _, s := range p {
		if s.cut {
			o.CutOff(s.took)
		} else {
			o.Record(s.took, nil)
		}
	}
	return o
}

// A distribution draws latencies and knows the share of them up to some time.
type distribution struct {
	draw func(r *rand.Rand) time.Duration
	cdf  func(d time.Duration) float64
}

// lognormal has the given mean and standard deviation.
func lognormal(mean, sd time.Duration) distribution {
	v := math.Log1p(math.Pow(float64(sd)/float64(mean), 2))
	mu, sigma := math.Log(float64(mean))-v/2, math.Sqrt(v)
	return distribution{
		draw: func(r *rand.Rand) time.Duration { return time.Duration(math.Exp(mu + sigma*r.NormFloat64())) },
		cdf: func(d time.Duration) float64 {
			return math.Erfc((mu-math.Log(float64(d)))/(sigma*math.Sqrt2)) / 2
		},
	}
}

// mixed is a, but for a share of b.
func mixed(a, b distribution, share float64) distribution {
	return distribution{
		draw: func(r *rand.Rand) time.Duration {
			if r.Float64() < share {
				return b.draw(r)
			}
			return a.draw(r)
		},
		cdf: func(d time.Duration) float64 { return (1-share)*a.cdf(d) + share*b.cdf(d) },
	}
}

// quantile looks for the time at which the cdf reaches q.
func (d distribution) quantile(q float64) time.Duration {
	low, high := time.Duration(1), time.Hour
	for high-low > 1 {
		if mid := low + (high-low)/2; d.cdf(mid) < q {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

func (d distribution) sample(r *rand.Rand, n int) plain {
	p := make(plain, n)
	for i := range p {
		p[i].took = d.draw(r)
	}
	return p
}

var (
	usual   = lognormal(5*ms, 2*ms)
	slow    = lognormal(50*ms, 20*ms)
	bimodal = mixed(usual, slow, 0.08)
	// stepwise is a window in the middle of which everything becomes four times
	// slower.
	stepwise = mixed(usual, lognormal(20*ms, 8*ms), 0.5)

	inputs = map[string]distribution{"lognormal": usual, "bimodal": bimodal, "stepwise x4": stepwise}
)

// near asserts that got is want to within a share.
func near(t testing.TB, want, got time.Duration, share float64, what ...any) {
	t.Helper()
	assert.InEpsilon(t, float64(want), float64(got), share, what...)
}

// What is kept of a latency is exact to half a bucket, 1 in 128, from 4.1 µs to
// 274 s. Beyond either end it counts as the last bucket.
func TestALatencyIsKeptToWithinHalfABucket(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(d, want time.Duration) {
		o := latency.New(latency.Config{})
		for range 20 {
			o.Record(d, nil)
		}
		got, ok := o.Quantile(0.5)
		require.True(t, ok)
		near(t, want, got, 1.0/127, "%v", d)
	}
	const low, high = 4096 * time.Nanosecond, 1<<38*time.Nanosecond - 1
	for range stress.Rounds(300) {
		d := time.Duration(math.Exp(math.Log(float64(low)) + r.Float64()*math.Log(float64(high)/float64(low))))
		check(d, d)
	}
	for e := 12; e < 38; e++ { // both sides of each power of two
		check(1<<e, 1<<e)
		check(1<<(e+1)-1, 1<<(e+1)-1)
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, us, low} {
		check(d, low)
	}
	for _, d := range []time.Duration{high, time.Hour, math.MaxInt64} {
		check(d, high)
	}
}

// Without cuts, the histogram answers what the sorted samples do, to within
// half a bucket. That holds from the first number of samples that answers.
func TestTheHistogramAnswersWhatTheSortedSamplesDo(t *testing.T) {
	for name, input := range inputs {
		r := rand.New(rand.NewPCG(3, 4))
		for _, n := range []int{20, 199, 1000, 10_000, 100_000} {
			p := input.sample(r, n)
			o := p.record()
			p.sort()
			for _, q := range []float64{0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999} {
				got, ok := o.Quantile(q)
				assert.Equal(t, float64(n)*min(q, 1-q) >= 10-1e-6, ok, "%s, p%v of %d", name, 100*q, n)
				if ok {
					want, _ := p.quantile(q)
					near(t, want, got, 1.0/127, "%s, p%v of %d", name, 100*q, n)
				}
			}
		}
	}
}

// With cuts, at one time as timeouts are or anywhere as lost races are, it
// answers what the textbook estimate does.
func TestWithCutsTheHistogramAnswersWhatKaplanMeierDoes(t *testing.T) {
	for name, input := range inputs {
		for cutName, cut := range map[string]func(r *rand.Rand) time.Duration{
			"timeout": func(*rand.Rand) time.Duration { return input.quantile(0.97) },
			"races":   func(r *rand.Rand) time.Duration { return input.draw(r) * 2 },
			"deadlines": func(r *rand.Rand) time.Duration {
				return time.Duration(r.Float64() * float64(input.quantile(0.999)))
			},
		} {
			r := rand.New(rand.NewPCG(5, 6))
			p := input.sample(r, 40_000)
			cuts := 0
			for i := range p {
				if c := cut(r); c < p[i].took {
					p[i] = sample{c, true}
					cuts++
				}
			}
			require.NotZero(t, cuts)
			o := p.record()
			p.sort()
			assert.EqualValues(t, cuts, o.Snapshot().Stats().CutOff)
			answered := 0
			for _, q := range []float64{0.5, 0.9, 0.95, 0.99, 0.999} {
				got, ok := o.Quantile(q)
				want, wantOK := p.quantile(q)
				if assert.Equal(t, wantOK, ok, "%s, %s, p%v", name, cutName, 100*q) && ok {
					answered++
					near(t, want, got, 0.02, "%s, %s, p%v", name, cutName, 100*q)
					near(t, input.quantile(q), got, 0.1, "the truth without cuts: %s, %s, p%v", name, cutName, 100*q)
				}
			}
			assert.GreaterOrEqual(t, answered, 3)
		}
	}
}
