package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func simulate(t *testing.T, edit func(*Config)) Result {
	c := Default()
	edit(&c)
	began := time.Now()
	r := Run(t, c)
	t.Logf("%-8s %6d members %7.0f calls/s: load %.3f, success %.3f, %d retries, %d store calls; took %v",
		c.Kind, c.Members, c.Rate, r.Load(), r.Success(), r.Retries(), r.StoreCalls, time.Since(began).Round(time.Millisecond))
	return r
}

// A thousand processes that fail half of what they do, together a hundred times a
// second: what is once for each process is a thousand times too much.
func TestAThousandMembersLoadTheTargetAsOneDoesAndNotAsAThousand(t *testing.T) {
	for seed := range uint64(3) {
		run := func(kind string) Result {
			return simulate(t, func(c *Config) { c.Kind, c.Seed = kind, seed })
		}
		for _, kind := range []string{"fixed", "bucket", "finagle", "grpc", "aws"} {
			assert.Greater(t, run(kind).Load(), 1.8, kind)
		}
		ours, one := run("curfew"), run("one")
		assert.LessOrEqual(t, ours.Load(), 1.06)
		assert.InDelta(t, one.Success(), ours.Success(), 0.03)
	}
}

// More of them change nothing but who retries, by what lies unused with each: at
// most a lease, which is what the member's part of the fleet earns in the second that
// it lives, and one more.
func TestTheFleetRetriesTheSameHoweverManyMembersItHas(t *testing.T) {
	const rate, seconds = 1000, 5
	short := func(c *Config) { c.Rate, c.Length = rate, seconds*time.Second }
	one := simulate(t, func(c *Config) { short(c); c.Kind = "one" })
	for _, members := range []int{1, 10, 1000, 10_000} {
		r := simulate(t, func(c *Config) { short(c); c.Members = members })
		assert.LessOrEqual(t, r.Load(), one.Load()+0.002)
		assert.InDelta(t, one.Success(), r.Success(), 0.03)
		leases := one.Retries()/seconds + int64(members)
		assert.InDelta(t, one.Retries(), r.Retries(), float64(leases))
		// Of five seconds a new pool lends nothing in the first; 10,000 members make 0.68 to 0.79.
		assert.Greater(t, float64(r.Retries()), 0.6*float64(one.Retries()))
		assert.LessOrEqual(t, float64(r.StoreCalls), 1.1*float64(members)*4*seconds+float64(members), "and one each to leave")
	}
}

func TestSuccessIsThatOfOneBudgetWhateverTheShareOfFailures(t *testing.T) {
	for _, failing := range []float64{0.05, 0.3, 1} {
		run := func(kind string) Result {
			return simulate(t, func(c *Config) { c.Kind, c.Rate, c.Failing = kind, 1000, failing })
		}
		ours, one := run("curfew"), run("one")
		assert.InDelta(t, one.Success(), ours.Success(), 0.03)
		assert.LessOrEqual(t, ours.Load(), max(one.Load(), 1.01)+0.01)
	}
}

// A store that loses answers, is far away or gone for a while costs retries, and
// never brings more.
func TestAStoreInTroubleBringsNoLoad(t *testing.T) {
	for _, store := range []Store{
		{RTT: 15 * time.Millisecond},
		{RTT: time.Millisecond, Lost: 0.3},
		{RTT: time.Millisecond, Down: 3 * time.Second, Up: 6 * time.Second},
		{RTT: 50 * time.Millisecond}, // no answer comes in time
	} {
		r := simulate(t, func(c *Config) { c.Members, c.Rate, c.Store = 100, 1000, store })
		assert.LessOrEqual(t, r.Load(), 1.06)
		assert.Greater(t, r.Load(), 1.0)
	}
}

func TestOneSeedIsOneLoad(t *testing.T) {
	for _, kind := range []string{"none", "fixed", "bucket"} {
		run := func(seed uint64) Result {
			return simulate(t, func(c *Config) { c.Kind, c.Seed, c.Members = kind, seed, 10 })
		}
		assert.Equal(t, run(3), run(3))
		assert.NotEqual(t, run(3), run(4))
	}
}

func TestTenThousandMembersTakeSeconds(t *testing.T) {
	r := simulate(t, func(c *Config) { c.Members, c.Rate, c.Length = 10_000, 100_000, time.Second })
	assert.LessOrEqual(t, r.Load(), 1.06)
}

func TestTheRulesOfOthersAreTheirs(t *testing.T) {
	retries := func(r rule) (n int) {
		for r.failure() {
			n++
		}
		return n
	}
	assert.Equal(t, 5, retries(&bucket{have: 50, most: 50, deposit: 1, cost: 10}))
	assert.Equal(t, 35, retries(&bucket{have: 500, most: 500, deposit: 1, cost: 14, refund: 14}), "AWS since 2026")
	assert.Equal(t, 4, retries(&throttle{tokens: 10_000}), "gRFC A6")
	assert.Equal(t, 100, retries(newFinagle()), "a reserve of 10/s for 10 s")
	g := &throttle{}
	for range 60 {
		g.success(false)
	}
	assert.False(t, g.failure(), "5.0 of ten")
	g.tokens = 6100
	assert.True(t, g.failure(), "5.1 of ten")
}
