package retrybudget

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Pool is what the members of a fleet share for each target: one floor, and the
// credit that members had too much of. Credit in it moves and is never copied,
// and it keeps its date. Package pooltest has one in memory and the list of what
// every Pool must do; curfewredis keeps one in Redis.
//
// A Budget makes one call at a time, on a goroutine of its own, bounded by a timeout
// of 20 ms, and never in the way of a first attempt; the last one, in Close, has a
// second. An error, a panic, an answer out of bounds and none at all are one to it:
// it goes on with its own credit and asks again a period later, 200 to 300 ms. A
// Pool is used by many goroutines at once.
type Pool interface {
	// Sync takes over what r gives and lends of what r wants. The request is
	// served once: a Seq that is not above the highest served of that member
	// changes nothing and is lent nothing, so that what the network repeats or
	// reorders is harmless. A request out of bounds, see PoolRequest.Check, is
	// an error and changes nothing. Sync obeys ctx; one that does not holds its
	// goroutine, and nobody else.
	Sync(ctx context.Context, r PoolRequest) (PoolGrant, error)
}

// Bounds of what goes to a Pool and comes from it.
const (
	maxPoolAmount = 1_000_000 * perToken // of one kind of credit in one call
	maxPoolCount  = 1 << 53              // what a double, as in Redis' scripts, counts to exactly
	maxPoolName   = 128                  // bytes of a Member
	maxHold       = time.Minute
)

// A PoolRequest is what a member says. Amounts are in millionths of a retry, and
// none is below zero or above a million retries. Instants are microseconds of the
// Pool's clock, as PoolGrant.Now tells it.
type PoolRequest struct {
	Target string // whose pool; not empty
	Member string // who asks: at random for each Budget, 1 to 128 bytes
	Seq    uint64 // above all earlier ones of the member; from 1 to 2⁵³

	// Epoch is that of the last answer; zero before the first. What is given in
	// another epoch than the Pool's is lost: its dates mean nothing there, and
	// what forgot may be asked to forget twice.
	Epoch   int64
	Donate  int64 // credit for all: earned here, or lent as credit and not spent
	Expires int64 // when the oldest of Donate does
	Return  int64 // lent of the floor and not spent, all of it in one grant
	Lent    int64 // as in that grant

	Want      int64         // to be lent
	PerSecond int64         // what the floor of the fleet gains a second, up to 10,000 retries
	Burst     int64         // what the floor of the fleet holds
	Hold      time.Duration // nobody is to retry for so long; zero: no wish; a minute at most
	Leave     bool          // the member ends here
}

// A PoolGrant is the answer to a PoolRequest.
type PoolGrant struct {
	Seq   uint64 // of the request
	Epoch int64  // another one each time that the Pool lost its memory or its clock went back; above zero
	Now   int64  // what the Pool's clock said, in microseconds

	Granted int64         // lent to the member; whole retries, never above Want
	Life    time.Duration // how long that may be spent, from when it was asked for; a second at most
	Floor   int64         // what of Granted is of the floor; the rest is credit
	Lent    int64         // for PoolRequest.Return, of that; the Pool's own affair
	Expires int64         // when the oldest of the credit does; not before Life is over

	Balance int64         // left to all
	Members int           // that asked within the last second, at least one
	Hold    time.Duration // nobody is to retry for so long; a minute at most

	// The books of this call. Over all calls that a pool served in one epoch
	//
	//	donated + returned + Σ Accrued = Σ Granted + Σ Expired + Balance
	Accrued int64 // what the floor gained
	Expired int64 // what grew too old, came too late or did not fit
}

// Check returns an error when r is out of bounds, and nil otherwise. Whoever
// implements a Pool calls it first.
func (r PoolRequest) Check() error {
	switch {
	case r.Target == "":
		return errors.New("retrybudget: pool: empty Target")
	case r.Member == "" || len(r.Member) > maxPoolName:
		return poolError(r, "Member of %d bytes is not within 1 and %d", len(r.Member), maxPoolName)
	case r.Seq == 0 || r.Seq > maxPoolCount:
		return poolError(r, "Seq %d is not within 1 and 2⁵³", r.Seq)
	case r.Hold < 0 || r.Hold > maxHold:
		return poolError(r, "Hold %v is not within 0 and %v", r.Hold, maxHold)
	case r.PerSecond < 0 || r.PerSecond > maxPerSecond*perToken:
		return poolError(r, "PerSecond %d is not within 0 and %d", r.PerSecond, int64(maxPerSecond*perToken))
	}
	for _, f := range []struct {
		name    string
		n, most int64
	}{
		{"Donate", r.Donate, maxPoolAmount}, {"Return", r.Return, maxPoolAmount},
		{"Want", r.Want, maxPoolAmount}, {"Burst", r.Burst, maxPoolAmount},
		{"Epoch", r.Epoch, maxPoolCount}, {"Expires", r.Expires, maxPoolCount}, {"Lent", r.Lent, maxPoolCount},
	} {
		if f.n < 0 || f.n > f.most {
			return poolError(r, "%s %d is not within 0 and %d", f.name, f.n, f.most)
		}
	}
	return nil
}

// Check returns an error when g cannot be the answer to r, and nil otherwise. A
// Budget trusts no answer that does not pass it.
func (g PoolGrant) Check(r PoolRequest) error {
	switch {
	case g.Seq != r.Seq:
		return poolError(r, "answer to Seq %d instead of %d", g.Seq, r.Seq)
	case g.Granted < 0 || g.Granted > r.Want || g.Granted%perToken != 0 || g.Floor < 0 || g.Floor > g.Granted:
		return poolError(r, "granted %d, %d of it of the floor, of the %d wanted", g.Granted, g.Floor, r.Want)
	case g.Life < 0 || g.Life > time.Duration(leaseLife):
		return poolError(r, "granted for %v, not within 0 and %v", g.Life, time.Duration(leaseLife))
	case g.Hold < 0 || g.Hold > maxHold:
		return poolError(r, "granted a Hold of %v, not within 0 and %v", g.Hold, maxHold)
	case g.Epoch < 1 || g.Epoch > maxPoolCount || !counts(g.Now) || !counts(g.Lent) || !counts(g.Expires):
		return poolError(r, "answer with Epoch %d, Now %d, Lent %d, Expires %d", g.Epoch, g.Now, g.Lent, g.Expires)
	case g.Balance < 0 || g.Members < 1 || g.Accrued < 0 || g.Expired < 0:
		return poolError(r, "answer with Balance %d, Members %d, Accrued %d, Expired %d", g.Balance, g.Members, g.Accrued, g.Expired)
	}
	return nil
}

func counts(n int64) bool { return n >= 0 && n <= maxPoolCount }

func poolError(r PoolRequest, format string, args ...any) error {
	return fmt.Errorf("retrybudget: pool of %s: "+format, append([]any{printable(r.Target)}, args...)...)
}
