package retrybudget

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/stress"
)

// A plain is the plain twin of the credit: a list of deposits, oldest first,
// each with its own time. It knows no slices; life says how long a deposit is
// worth something.
type plain struct {
	life     int64
	deposits []deposit
}

type deposit struct {
	at   int64
	left uint64
}

func (p *plain) add(now int64, amount uint64) {
	p.deposits = append(p.deposits, deposit{now, amount})
}

func (p *plain) expire(now int64) {
	for len(p.deposits) > 0 && now-p.deposits[0].at >= p.life {
		p.deposits = p.deposits[1:]
	}
}

func (p *plain) balance(now int64) (sum uint64) {
	p.expire(now)
	for _, d := range p.deposits {
		sum += d.left
	}
	return sum
}

// spend spends cost, or all there is.
func (p *plain) spend(now int64, cost uint64) {
	p.expire(now)
	for i := range p.deposits {
		part := min(cost, p.deposits[i].left)
		p.deposits[i].left -= part
		cost -= part
	}
}

// An event of a history, at the budget's own time.
type event struct {
	at      int64
	success bool // else one retry or hedge that was kept
}

// checkWindows fails unless the invariant holds in every span from one grant to
// another.
func checkWindows(t *testing.T, s settings, events []event) {
	t.Helper()
	for i, first := range events {
		if first.success {
			continue
		}
		var grants uint64
		for _, last := range events[i:] {
			if last.success {
				continue
			}
			grants++
			var successes uint64
			for _, e := range events {
				if e.success && e.at > first.at-s.window && e.at <= last.at {
					successes++
				}
			}
			hi, lo := bits.Mul64(uint64(last.at-first.at), s.rate)
			floor, rest := bits.Div64(hi, lo, uint64(time.Second))
			if rest > 0 {
				floor++
			}
			if s.burst == 0 {
				floor = 0
			}
			allowed := successes*s.ppm + floor + s.burst
			require.LessOrEqualf(t, grants*perToken, allowed, "from %v to %v: %d granted, %d successes",
				time.Duration(first.at), time.Duration(last.at), grants, successes)
		}
	}
}

// Random histories of successes, retries of both costs, hedges, tokens that are
// given back, idle gaps, bursts and steps of the clock, beside plain twins: what
// lives for all of the window must cover each grant of credit, and what lives
// for nine tenths of it must not be denied.
func TestNoWindowOfARandomHistoryIsOverspent(t *testing.T) {
	var granted, denied, givenBack, steps, floors int
	synctest.Test(t, func(t *testing.T) {
		for range stress.Rounds(150) {
			c := Config{
				Ratio:     []float64{-1, 0.01, 0.07, 0.1, 0.3, 0.7, 1, 2}[rand.IntN(8)],
				PerSecond: []float64{-1, 0.5, 1, 3, 10}[rand.IntN(5)],
				Burst:     []int{-1, 1, 2, 5}[rand.IntN(4)],
				Window:    []time.Duration{time.Second, 3 * time.Second, 10 * time.Second}[rand.IntN(3)],
			}
			b := New("target", c)
			core := b.core
			onTime := true // whether the timer made every mark
			full, short := plain{life: core.window}, plain{life: core.window * (perWindow - 1) / perWindow}
			type held struct {
				g  grant
				at int64
			}
			var holding []held
			var events []event
			for range 60 {
				switch rand.IntN(12) {
				case 0, 1:
					time.Sleep(time.Duration(rand.Int64N(core.window / 3)))
				case 2:
					time.Sleep(time.Duration(rand.Int64N(3 * core.window)))
				case 3:
					if rand.IntN(4) == 0 {
						step := rand.Int64N(4 * core.window)
						if rand.IntN(2) == 0 { // less than a slice is not to be seen, and no clock does that
							step = -core.slice - step/2
						}
						core.shift.Add(step)
						core.upToDate()
						onTime, steps = false, steps+1
					}
				case 4, 5, 6:
					for range 1 + rand.IntN(20) {
						b.Success()
						now := core.upToDate()
						full.add(now, core.ppm)
						short.add(now, core.ppm)
						events = append(events, event{now, true})
					}
				case 7:
					if len(holding) > 0 {
						i := rand.IntN(len(holding))
						b.giveBack(holding[i].g)
						holding = append(holding[:i], holding[i+1:]...)
						onTime = false // the twins do not follow this
						givenBack++
					}
				default:
					for range 1 + rand.IntN(6) {
						v, cost := b, uint64(perToken*(1+rand.IntN(2)))
						if rand.IntN(3) == 0 {
							v, cost = b.Hedges(), perToken
						}
						now := core.upToDate()
						var g grant
						ok := v.take(&g, cost)
						if !ok {
							denied++
							if onTime && !v.hedge {
								require.Less(t, short.balance(now), cost, "denied in spite of live credit")
							}
							continue
						}
						granted++
						if g.from == fromCredit {
							if onTime {
								require.GreaterOrEqual(t, full.balance(now), cost, "granted beyond the live credit")
							}
							full.spend(now, cost)
							short.spend(now, cost)
						} else {
							floors++
						}
						if rand.IntN(4) == 0 {
							holding = append(holding, held{g, now})
						} else {
							events = append(events, event{now, false})
						}
					}
				}
			}
			for _, h := range holding { // these were kept in the end
				at := len(events)
				for at > 0 && events[at-1].at > h.at {
					at--
				}
				events = append(events[:at], append([]event{{h.at, false}}, events[at:]...)...)
			}
			checkWindows(t, core.settings, events)
			checkBooks(t, core)
		}
	})
	t.Logf("granted %d (floor %d), denied %d, given back %d, steps of the clock %d", granted, floors, denied, givenBack, steps)
	for _, n := range []int{granted, floors, denied, givenBack, steps} {
		assert.Positive(t, n, "never happened")
	}
}

// checkBooks fails unless every micro-token that was earned is spent, expired or
// still there.
func checkBooks(t *testing.T, c *core) {
	t.Helper()
	c.turn()
	c.mu.Lock()
	defer c.mu.Unlock()
	used, earned := c.own.used.Load(), c.successes.Load()*c.ppm
	spent := used - c.lapsed
	assert.LessOrEqual(t, used, earned)
	assert.Zero(t, spent%perToken, "a part of a token was spent")
}

// 64 goroutines deposit, take and give back at once, while slices expire. Not
// one token more is granted than was earned.
func TestSixtyFourGoroutinesDoNotOverspendByOneToken(t *testing.T) {
	const goroutines, each = 64, 400
	for _, ratio := range []float64{0.07, 0.3, 1} {
		var granted, denied, back atomic.Uint64
		for range stress.Rounds(5) {
			c := newCore("target", Config{Ratio: ratio, Burst: 7, PerSecond: -1, Window: time.Minute}.settle("test"))
			var kept atomic.Uint64
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i := range goroutines {
				wg.Go(func() {
					<-start
					for j := range each {
						if (i+j)%2 == 0 {
							c.success()
							continue
						}
						var g grant
						ok := c.take(&g, perToken, j%5 == 0)
						switch {
						case !ok:
							denied.Add(1)
						case j%7 == 0:
							c.giveBack(g)
							back.Add(1)
						default:
							kept.Add(1)
						}
					}
				})
			}
			close(start)
			wg.Wait()
			for { // what is left comes out to the last token
				if !c.take(new(grant), perToken, false) {
					break
				}
				kept.Add(1)
			}
			granted.Add(kept.Load())
			require.Equal(t, goroutines*each/2*c.ppm/perToken+7, kept.Load())
			require.Equal(t, kept.Load(), (&Budget{core: c}).Stats().Retries+c.hedges.Load())
			checkBooks(t, c)
		}
		t.Logf("ratio %v: kept %d, denied %d, given back %d", ratio, granted.Load(), denied.Load(), back.Load())
		assert.Positive(t, denied.Load())
		assert.Positive(t, back.Load())
	}
}

// The same with time going on, so that takers, the timer and those who give
// back all move what has expired.
func TestExpiryRacingWithTakersNeverOverspends(t *testing.T) {
	var lapsed uint64
	for range stress.Rounds(10) {
		synctest.Test(t, func(t *testing.T) {
			c := newCore("target", Config{Ratio: 0.3, Burst: 3, PerSecond: 2, Window: time.Second}.settle("test"))
			var kept atomic.Uint64
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for j := range 30 {
						time.Sleep(time.Duration(1+(i+j)%3) * 50 * time.Millisecond) // many wake at one instant
						if i%3 != 0 {
							c.success()
						} else if g := new(grant); c.take(g, perToken, false) {
							if j%4 == 0 {
								c.giveBack(*g)
							} else {
								kept.Add(1)
							}
						}
					}
				})
			}
			wg.Wait()
			earned := c.successes.Load()*c.ppm + c.floor.earned(c.now()) + c.burst
			assert.LessOrEqual(t, kept.Load()*perToken, earned)
			assert.Equal(t, kept.Load(), (&Budget{core: c}).Stats().Retries)
			checkBooks(t, c)
			lapsed += c.lapsed
		})
	}
	assert.Positive(t, lapsed, "nothing expired")
}
