package pooltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

// A Lab is a pool under test, with what a test does to it from outside. The pool
// starts empty.
type Lab struct {
	Pool retrybudget.Pool
	// Advance lets d pass for the pool, to it alone. A negative d sets its clock back.
	Advance func(d time.Duration)
	// Lose makes the pool forget all there is, as a server that lost its memory.
	Lose func()
	// MaxMembers is the most members that the pool takes for one target: a few,
	// and ten at least, so that the test can fill it.
	MaxMembers int
}

// Run checks that a pool keeps the contract of retrybudget.Pool and the rules
// that Memory tells. It calls open for each of its subtests.
func Run(t *testing.T, open func(t *testing.T) Lab) {
	for _, c := range []struct {
		name string
		f    func(*testing.T, *bench)
	}{
		{"credit moves from who donates to who wants", creditMoves},
		{"a lease is at most twice the even share", leaseIsAShare},
		{"a lease is whole retries", leaseIsWhole},
		{"a repeated request changes nothing", repeated},
		{"an older request changes nothing", reordered},
		{"a lost answer counts as spent", lostAnswer},
		{"credit expires by its date", creditExpires},
		{"credit that was lent ends before its date", creditEndsInTime},
		{"credit that comes back keeps its date", creditComesBack},
		{"a new pool lends nothing of the floor", newPoolIsEmpty},
		{"the burst is there once for the fleet", burstOnce},
		{"the floor fills once for the fleet", floorOnce},
		{"what was lent keeps its place", lentKeepsItsPlace},
		{"what comes back gets its place", floorComesBack},
		{"a small burst makes leases short", shortLeases},
		{"a slow floor fills in spite of frequent calls", slowFloor},
		{"a pool that has forgotten takes nothing of before", forgotten},
		{"members are bounded", membersAreBounded},
		{"who leaves is no member", leaving},
		{"a hold stops the fleet", hold},
		{"requests out of bounds change nothing", outOfBounds},
		{"the largest amounts are exact", largest},
		{"a clock that goes back makes a pool forget", back},
		{"a clock that steps ahead creates a burst at most", ahead},
		{"targets do not know each other", targets},
		{"credit is conserved", conserved},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := open(t)
			b := &bench{T: t, Lab: lab, seqs: map[string]uint64{}, served: map[string]uint64{}}
			b.send(b.ask("first", func(r *retrybudget.PoolRequest) { r.Leave = true })) // tells the time
			c.f(t, b)
		})
	}
}

// A bench keeps the books of one pool beside it.
type bench struct {
	*testing.T
	Lab
	seqs            map[string]uint64 // last of each member
	served          map[string]uint64 // highest of each member
	put, got        int64
	accrued, gone   int64
	epoch, now      int64 // by the last answer
	dry             bool  // the books of this test are not of one target
	requests, stale int
}

// ask returns the next request of a member.
func (b *bench) ask(member string, edit func(*retrybudget.PoolRequest)) retrybudget.PoolRequest {
	b.seqs[member]++
	r := retrybudget.PoolRequest{
		Target: "target", Member: member, Seq: b.seqs[member],
		Epoch: b.epoch, Expires: b.now + 60*second,
	}
	if edit != nil {
		edit(&r)
	}
	return r
}

// send sends r and checks what comes back, and the books.
func (b *bench) send(r retrybudget.PoolRequest) retrybudget.PoolGrant {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	g, err := b.Pool.Sync(ctx, r)
	if err != nil {
		b.Fatalf("%+v: %v", r, err)
	}
	if err := g.Check(r); err != nil {
		b.Fatalf("%+v: %v", r, err)
	}
	b.requests++
	if b.epoch != 0 && g.Epoch != b.epoch && !b.dry { // a new book
		b.put, b.got, b.accrued, b.gone, b.served = 0, 0, 0, 0, map[string]uint64{}
	}
	b.epoch, b.now = g.Epoch, g.Now
	if who := r.Target + "/" + r.Member; r.Seq > b.served[who] {
		b.served[who] = r.Seq
		b.put += r.Donate + r.Return
	} else {
		b.stale++
		if g.Granted != 0 {
			b.Fatalf("%+v: served again: %+v", r, g)
		}
	}
	b.got += g.Granted
	b.accrued += g.Accrued
	b.gone += g.Expired
	if in, out := b.put+b.accrued, b.got+b.gone+g.Balance; in != out && !b.dry {
		b.Fatalf("%+v: %+v: %d came in, and %d is accounted for", r, g, in, out)
	}
	return g
}

// refused sends r, which is to be refused.
func (b *bench) refused(r retrybudget.PoolRequest) {
	b.Helper()
	if g, err := b.Pool.Sync(context.Background(), r); err == nil {
		b.Fatalf("%+v: served: %+v", r, g)
	}
}

func (b *bench) donate(member string, n int64) retrybudget.PoolGrant {
	b.Helper()
	return b.send(b.ask(member, func(r *retrybudget.PoolRequest) { r.Donate = n }))
}

func (b *bench) want(member string, n int64) retrybudget.PoolGrant {
	b.Helper()
	return b.send(b.ask(member, func(r *retrybudget.PoolRequest) { r.Want = n }))
}

// fill makes the floor full.
func (b *bench) fill(burst int64) {
	b.Helper()
	b.floor("first", 10_000*perToken, burst, 0)
	b.Advance(time.Hour)
	b.equal("a full floor", burst, b.floor("first", 10_000*perToken, burst, 0).Balance)
}

// floor asks with a floor of so many a second and so much burst.
func (b *bench) floor(member string, perSecond, burst, want int64) retrybudget.PoolGrant {
	b.Helper()
	return b.send(b.ask(member, func(r *retrybudget.PoolRequest) { r.PerSecond, r.Burst, r.Want = perSecond, burst, want }))
}

func (b *bench) equal(what string, want, got int64) {
	b.Helper()
	if want != got {
		b.Fatalf("%s: want %d, got %d", what, want, got)
	}
}

func name(i int) string { return fmt.Sprintf("member-%d", i) }
