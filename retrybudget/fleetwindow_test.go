package retrybudget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// lossy is a network between members and a pool that loses requests and answers,
// and brings requests twice, late, and in another order. Now and then the pool
// loses its memory.
type lossy struct {
	pool *pooltest.Memory

	mu                               sync.Mutex
	epoch                            int64 // under mu, as all
	donated, returned, leased        int64 // what arrived and went out, since the pool knew nothing
	accrued, expired, balance        int64
	received, credit, back           int64 // of what went out ever: what members got, what of it was credit, what came back
	highest                          map[string]uint64
	lost, unheard, twice, late, fell int
}

var errLost = errors.New("lost")

func (l *lossy) Sync(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	time.Sleep(rand.N(5 * time.Millisecond))
	switch rand.IntN(16) {
	case 0:
		l.count(&l.lost)
		<-ctx.Done()
		return retrybudget.PoolGrant{}, errLost
	case 1:
		l.count(&l.unheard)
		_, _ = l.deliver(r)
		<-ctx.Done()
		return retrybudget.PoolGrant{}, errLost
	case 2:
		l.count(&l.late)
		time.AfterFunc(rand.N(time.Second), func() { _, _ = l.deliver(r) })
		<-ctx.Done()
		return retrybudget.PoolGrant{}, errLost
	case 3:
		l.count(&l.twice)
		time.AfterFunc(rand.N(2*time.Second), func() { _, _ = l.deliver(r) })
	case 4:
		if rand.IntN(8) == 0 {
			l.count(&l.fell)
			l.pool.Lose()
		}
	}
	g, err := l.deliver(r)
	l.mu.Lock()
	l.received += g.Granted
	l.credit += g.Granted - g.Floor
	l.mu.Unlock()
	return g, err
}

func (l *lossy) count(n *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

func (l *lossy) deliver(r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	l.mu.Lock() // the books are those of one instant
	defer l.mu.Unlock()
	g, err := l.pool.Sync(context.Background(), r)
	if err != nil {
		return g, err
	}
	if g.Epoch != l.epoch {
		l.epoch, l.highest = g.Epoch, map[string]uint64{}
		l.donated, l.returned, l.leased, l.accrued, l.expired = 0, 0, 0, 0, 0
	}
	if r.Seq > l.highest[r.Member] {
		l.highest[r.Member] = r.Seq
		l.donated += r.Donate
		l.returned += r.Return
		l.back += r.Return
	}
	l.leased += g.Granted
	l.accrued += g.Accrued
	l.expired += g.Expired
	l.balance = g.Balance
	return g, nil
}

// balanced checks that what came in went out, was too old, or is there.
func (l *lossy) balanced(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.Equal(t, l.donated+l.returned+l.accrued, l.leased+l.expired+l.balance)
}

// past is what a fleet did, in order of time.
type past struct {
	mu                 sync.Mutex
	successes, retries []time.Duration // since the start
	began              time.Time
}

func (p *past) note(list *[]time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, time.Since(p.began))
}

// check holds every window from one retry to another against
//
//	retries ≤ ratio × successes from a − W to b + floor × (b − a) + burst
//
// and returns how full the fullest was, floor and burst alone, and with credit.
func (p *past) check(t *testing.T, ratio, floor, burst float64, window time.Duration) (fullest float64) {
	for i, from := range p.retries {
		old, _ := slices.BinarySearch(p.successes, from-window+1) // one that is a window old is worth nothing
		n := old
		for j, to := range p.retries[i:] {
			for n < len(p.successes) && p.successes[n] <= to {
				n++
			}
			most := ratio*float64(n-old) + floor*(to-from).Seconds() + burst
			require.LessOrEqualf(t, float64(j+1), most+1e-9, "from %v to %v", from, to)
			fullest = max(fullest, float64(j+1)/most)
		}
	}
	return fullest
}

// Members that earn, spend, hedge, crash and start anew, over a network that
// loses, repeats, delays and reorders: the pool's books agree to the last
// millionth, what members have is never more than what they were lent, and no
// window of the fleet is overspent.
func TestCreditOfAFleetIsConservedAndNoWindowIsOverspent(t *testing.T) {
	const window, members, seconds = 4 * time.Second, 8, 40
	const moodTime = 700 * time.Millisecond
	var granted, crashes, lent, credit int
	var fullest float64
	var happened [5]int
	for round := range stress.Rounds(6) {
		ratio, floor, burst := 0.1, 3.0, 5.0
		switch round % 3 { // what would hide in the other one
		case 0:
			ratio = 0
		case 1:
			floor, burst = 0, 0
		}
		synctest.Test(t, func(t *testing.T) {
			net := &lossy{pool: &pooltest.Memory{}}
			config := retrybudget.Config{Ratio: ratio - 1e-9, PerSecond: floor - 1e-9, Burst: int(burst), Window: window, Pool: net}
			if burst == 0 {
				config.Burst = -1
			}
			p := past{began: time.Now()}
			// Of all together: earning, quiet, wanting all there is, or each its own.
			moods := make([]byte, seconds*time.Second/moodTime+1)
			for i := range moods {
				moods[i] = [2]string{"eqwmeqqw", "eeqqqqww"}[round%2][(i/2+rand.IntN(2))%8]
			}
			var booked uint64 // leases that members know of
			var wg sync.WaitGroup
			for i := range members {
				wg.Go(func() {
					b := retrybudget.New("target", config)
					book := func() {
						p.mu.Lock()
						defer p.mu.Unlock()
						booked += b.Stats().Fleet.Leased
					}
					for time.Since(p.began) < seconds*time.Second {
						time.Sleep(rand.N(40 * time.Millisecond))
						n := rand.IntN(200)
						switch mood := moods[time.Since(p.began)/moodTime]; {
						case n == 0 && i < 3: // it crashes, with all it has
							book()
							b = retrybudget.New("target", config)
							p.mu.Lock()
							crashes++
							p.mu.Unlock()
						case mood == 'e' && n < 40+i*22, mood == 'm' && n < 20+i*22:
							p.note(&p.successes)
							b.Success()
						case mood == 'e', mood == 'q':
							if n < 60 && b.Stats().Floor == 0 && b.TryTake() { // what it is lent for this lies there
								p.note(&p.retries)
							}
						case n < 190:
							if b.TryTake() {
								p.note(&p.retries)
							}
						default:
							if b.Hedges().TryTake() {
								p.note(&p.retries)
							}
						}
					}
					book()
				})
			}
			wg.Wait()
			time.Sleep(5 * time.Second) // what is late arrives
			fullest = max(fullest, p.check(t, ratio, floor, burst, window))
			net.balanced(t)
			assert.LessOrEqual(t, int64(booked)*1_000_000, net.received, "who has crashed hears nothing")
			assert.LessOrEqual(t, net.back, net.received)
			for i, n := range []int{net.lost, net.unheard, net.twice, net.late, net.fell} {
				happened[i] += n
			}
			granted += len(p.retries)
			lent += int(booked)
			credit += int(net.credit / 1_000_000)
		})
	}
	t.Logf("%d retries, %d lent, %d of them credit, %d crashes; the fullest window was %.0f%% full", granted, lent, credit, crashes, 100*fullest)
	for _, n := range append(happened[:], crashes, lent, credit) {
		assert.Positive(t, n, "never happened")
	}
}

// Many goroutines of one member take, give back and wait for the pool at once,
// while its timer calls: what it spends is what it earned and was lent.
func TestGoroutinesOfOneMemberNeverSpendMoreThanTheyWereLent(t *testing.T) {
	var granted, denied int64
	for range stress.Rounds(20) {
		synctest.Test(t, func(t *testing.T) {
			b := retrybudget.New("target", retrybudget.Config{Ratio: 0.3, PerSecond: 50, Burst: 20, Pool: &link{Pool: &pooltest.Memory{}, rtt: time.Millisecond}})
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range 32 {
				wg.Go(func() {
					for j := range 40 {
						time.Sleep(time.Duration(1+(i+j)%3) * 20 * time.Millisecond) // many wake at one instant
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+j%20)*time.Millisecond)
						err := retrybudget.Do(ctx, b, idempotent(10*time.Millisecond), func(context.Context) error {
							if (i+j)%4 == 0 {
								return nil
							}
							return errDown
						})
						cancel()
						mu.Lock()
						if errors.Is(err, retrybudget.ErrDenied) {
							denied++
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			s := b.Stats()
			assert.LessOrEqual(t, s.Retries*1_000_000, s.Successes*300_000+s.Fleet.Leased*1_000_000)
			granted += int64(s.Retries)
			require.NoError(t, b.Close(t.Context()))
			assert.Zero(t, b.Stats().Floor)
			time.Sleep(15 * time.Second)
		})
	}
	t.Logf("%d granted, %d denied", granted, denied)
	assert.Positive(t, granted)
	assert.Positive(t, denied)
}
