// Package pooltest holds what pools of a fleet's retry budget are tested by: the
// list of what each of them must do, in [Run], and [Memory], the plain twin of
// all of them, which also serves simulations and the tests of those who use a
// fleet's budget.
package pooltest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

const (
	perToken   = 1_000_000
	maxSlot    = 1e14    // micro-tokens; twenty of them are below 2⁵³
	second     = 1000000 // in the unit of a pool's clock
	forget     = 600 * second
	maxHold    = 60 * second
	minLease   = 2 * perToken
	maxMembers = 65_536

	credits    = 20         // slots of credit
	creditSlot = second / 2 // of each
	lease      = second     // the longest life of one
	lents      = 12         // slots of what was lent of the floor
	lentSlot   = second / 8 // of each
)

// Memory is a Pool in the memory of one process. Its rules are those of every
// Pool, and Run checks them:
//
// Credit is lent from what was donated, what expires first before the rest, and
// then from the floor. A member gets what it wants, but no more than twice its even
// share among the members of the last second, or two retries where that is less,
// and no fractions. Credit is lent until a second before it expires, or up to half
// a second less, and for ten seconds at most, so that what is lent of it is never
// spent after that.
//
// What was lent of the floor keeps its place there until it can be spent no more:
// floor and lent together are at most the burst. So no span of time sees more of it
// than the rate and one burst. It keeps it for a second and a half, or for as long
// as the rate takes to fill half of the burst, if that is less, and leases are
// shorter then, down to a tenth of a second: a burst below half a second's rate is
// what bounds the rate. What comes back when its place is gone is lost. Since a Pool
// that is new may be one that has forgotten, its floor starts empty, and with all of
// the burst as if lent.
//
// A clock that goes back makes a Pool forget as well; one that steps forward fills
// the floor. A member that was quiet for ten minutes is forgotten. Members that
// disagree about the floor fill it, for the time since the last call of anybody, as
// the one that calls has it.
//
// The zero Memory is ready to use, by any number of goroutines. It must not be
// copied.
type Memory struct {
	// Now is the clock; nil: time.Now. Set it before the first call.
	Now func() time.Time
	// MaxMembers is how many members each target has at most; others get an
	// error. Zero: 65,536. Set it before the first call.
	MaxMembers int

	mu      sync.Mutex
	targets map[string]*shared // under mu
	epoch   int64              // under mu; of the newest pool
}

// Lose forgets all there is, as a server that lost its memory.
func (m *Memory) Lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.targets = nil
}

// Sync is part of retrybudget.Pool. It never waits.
func (m *Memory) Sync(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	if err := r.Check(); err != nil {
		return retrybudget.PoolGrant{}, err
	}
	if ctx.Err() != nil {
		return retrybudget.PoolGrant{}, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	return m.serve(r, now().UnixMicro())
}

func (m *Memory) serve(r retrybudget.PoolRequest, now int64) (g retrybudget.PoolGrant, err error) {
	if m.targets == nil {
		m.targets = map[string]*shared{}
	}
	s := m.targets[r.Target]
	if s == nil || now < s.at {
		m.epoch = max(now, m.epoch+1, 1)
		s = &shared{epoch: m.epoch, at: now, members: map[string]*member{}}
		s.lent[lents-1] = r.Burst
		m.targets[r.Target] = s
	}
	s.settle(r, now, &g)
	who := s.members[r.Member]
	if who == nil {
		most := m.MaxMembers
		if most == 0 {
			most = maxMembers
		}
		if len(s.members) >= most && !s.forget(now) {
			return retrybudget.PoolGrant{}, fmt.Errorf("pooltest: %q has %d members and takes no more", r.Target, most)
		}
		who = &member{}
		s.members[r.Member] = who
	}
	fresh := r.Seq > who.seq
	if fresh {
		who.seq = r.Seq
		s.touch(who, !r.Leave)
		s.put(r, &g)
	}
	g.Seq, g.Epoch, g.Now, g.Members = r.Seq, s.epoch, now, max(s.activeNow(), 1)
	g.Hold = time.Duration(min(max(s.hold-now, 0), maxHold)) * time.Microsecond
	if fresh && g.Hold == 0 {
		s.lend(r, &g)
	}
	g.Balance = s.balance()
	return g, nil
}
