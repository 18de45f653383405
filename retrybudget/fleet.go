package retrybudget

import (
	"context"
	"crypto/rand"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	poolPeriod  = int64(250 * time.Millisecond) // between two calls of a member, on average
	poolTimeout = 20 * time.Millisecond         // of one call
	leaseLife   = int64(time.Second)            // at most, from when it was asked for
	minCarried  = 2 * perToken                  // a member keeps so much of its own credit, however little it earns

	never = int64(math.MaxInt64) // as askAt: until something else sets it
)

// A fleet is a core's part in a shared pool:
//
//	joining ──an answer──▶ fleet ◀──an answer, none──▶ local      any ──Close──▶ left
//
// What is lent lies in leases, and who finds no credit of his own takes from
// those. Only whoever finds nothing there either wants something of the pool. The
// state is under mu, which is never held across a call; the atomics let a denial
// that changes nothing look without it.
//
// A timer makes the calls, one for each period and none when there is nothing to
// say. It is armed by a success or a want, and stops once the core's timer has
// stopped and nothing is lent. Refused: a goroutine for each Budget, which needs
// a Close that somebody forgets.
type fleet struct {
	core   *core
	pool   Pool
	member string
	rate   int64 // micro-tokens a second of the whole fleet
	burst  int64

	lent   atomic.Int64 // micro-tokens in leases
	askAt  atomic.Int64 // from when on a want may make a call before its time
	wanted atomic.Int64 // micro-tokens since the last call
	lost   atomic.Bool  // local: the last call had no answer; written under mu

	granted, stranded        atomic.Uint64 // micro-tokens
	deniedEmpty, deniedLocal atomic.Uint64

	mu       sync.Mutex
	seq      uint64        // of the last call; under mu, as all that follows
	told     uint64        // retries and hedges that there had been by then
	leases   []*lease      // those with something left, by their end
	backs    backs         // lent, not spent and not yet given back
	epoch    int64         // by the last answer; 0: there was none
	clock    int64         // of the pool, by the last answer
	holdTill int64         // to be told to the others; 0: nothing
	members  int           // by the last answer
	answered int64         // when that was
	empty    bool          // by the last answer nothing was left there
	err      error         // of the last call
	nextAt   int64         // of the next call that a timer makes
	flight   chan struct{} // closed when the running call is over; nil: none runs
	sentAt   int64         // when that one began
	timer    uint64        // number of the newest timer, the only one that acts
	armed    bool
	tickAt   int64
	left     *leaving // once the member leaves
}

func newFleet(c *core, pool Pool, s settings) *fleet {
	return &fleet{core: c, pool: pool, member: rand.Text(), rate: int64(s.rate), burst: int64(s.burst)}
}

// take spends the cost of g of what is lent. A hedge leaves as much to retries,
// and asks for nothing: a retry makes an error good.
func (f *fleet) take(now int64, g *grant) bool {
	cost, keep := int64(g.cost), int64(0)
	if g.hedge {
		keep = cost
	}
	if f.lent.Load() >= cost+keep && f.takeLent(now, cost, keep, g) {
		return true
	}
	if !g.hedge {
		f.want(now, cost)
	}
	return false
}

// want notes that cost was wanted, and asks the pool at once if that may be. An
// answer that was not enough is kept until the next period: until then denials
// are local and immediate.
func (f *fleet) want(now, cost int64) {
	f.wanted.Add(cost)
	if now < f.askAt.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askLocked(now)
	f.armLocked(now)
}

// askLocked starts a call before its time, unless one is running or one before
// its time has been made already.
func (f *fleet) askLocked(now int64) {
	if f.flight == nil && f.left == nil && now >= f.askAt.Load() {
		f.startLocked(now)
	}
}

// await returns when cost can be spent, or when the pool has answered that it
// cannot, or after the timeout of a call. It returns at once when the pool is
// not to be asked now.
func (f *fleet) await(ctx context.Context, b *Budget, cost uint64) {
	// Whoever comes when a call has just been made waits for that and then, if the
	// pool had more, for his own.
	for range 2 {
		now := f.core.upToDate()
		if b.hedge || b.spent() || now < f.core.hold.Load() || f.pays(now, cost) {
			return
		}
		f.mu.Lock()
		if f.lost.Load() || f.left != nil || now < f.askAt.Load() && f.flight == nil {
			f.mu.Unlock()
			return
		}
		if f.flight == nil {
			f.wanted.Add(int64(cost))
		}
		f.askLocked(now)
		f.armLocked(now)
		flight, bound := f.flight, f.sentAt+int64(poolTimeout)-now
		f.mu.Unlock()
		if flight == nil || !f.awaitFlight(ctx, flight, time.Duration(bound)) {
			return
		}
	}
}

// awaitFlight waits for the end of a call, and reports whether it came in time.
func (f *fleet) awaitFlight(ctx context.Context, flight chan struct{}, bound time.Duration) bool {
	late := time.NewTimer(bound)
	defer late.Stop()
	select {
	case <-flight:
		return true
	case <-ctx.Done():
	case <-late.C:
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.flight == flight {
			f.failLocked(errNoAnswer) // it does not even obey its context: the others need not wait
		}
	}
	return false
}

// pays reports whether a retry finds cost here.
func (f *fleet) pays(now int64, cost uint64) bool {
	c := f.core
	expired := c.expired.Load()
	return c.own.towards(cost, c.successes.Load()*c.ppm, expired) >= cost || f.lentAt(now) >= int64(cost)
}

// lentAt returns what of the leases can be spent.
func (f *fleet) lentAt(now int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lapseLocked(now)
	return f.lent.Load()
}

// denied counts a denial by its reason.
func (f *fleet) denied() {
	if f.lost.Load() {
		f.deniedLocal.Add(1)
	} else {
		f.deniedEmpty.Add(1)
	}
}

// next returns how long it is until the pool can be asked.
func (f *fleet) next(now int64) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(max(f.nextAt-now, 0))
}
