package retrybudget

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// A Set holds one Budget for each target, so that one that is down leaves the
// others their retries. It holds a bounded number of them: targets often come
// from outside, and each new name would otherwise bring a fresh allowance. A
// new target starts without credit, its floor fills from empty, and Burst is
// one for the whole Set, spent once:
//
//	retries + hedges of all targets, ever ≤ Ratio × successes + Σ PerSecond × (time it was held) + Burst
//
// Each target by itself keeps the invariant of its Budget. With a Pool a target
// has the floor of its fleet instead, and no part of the Set's burst. A Set may be
// shared by goroutines.
//
// With a Pool each name that is used for a quarter of a second or longer gets to the
// Pool, also one that somebody made up: in Redis that is two or three calls, and
// about 700 bytes for ten minutes. So let a Set with a Pool have names from a list of
// yours, and leave names that come from outside to one without.
type Set struct {
	settings settings
	max      int
	burst    atomic.Int64 // micro-tokens left of the one burst

	mu      sync.RWMutex
	entries map[string]*entry
	clock   []*entry // for eviction: a hand goes round and spares who was used since
	hand    int
}

type entry struct {
	target string
	budget *Budget
	used   atomic.Bool
}

// NewSet returns a Set of at most targets Budgets, each made of c. Fewer than
// one, and a Config out of bounds, panic.
func NewSet(c Config, targets int) *Set {
	if targets < 1 {
		panic(fmt.Sprintf("retrybudget: NewSet: targets %d is below 1", targets))
	}
	s := &Set{settings: c.settle("NewSet"), max: targets, entries: map[string]*entry{}}
	s.burst.Store(int64(s.settings.burst))
	return s
}

// For returns the Budget of target, the same on each call until the Set, being
// full, forgets one that was not asked for lately. A forgotten Budget that
// somebody still holds has its credit left and no floor. An empty target
// panics, and so does a Set that NewSet did not make. For waits for nothing but
// other calls of it.
func (s *Set) For(target string) *Budget {
	s.must("For")
	if target == "" {
		panic("retrybudget: For: empty target")
	}
	s.mu.RLock()
	e := s.entries[target]
	s.mu.RUnlock()
	if e == nil {
		return s.add(target).budget // asked for once is not in use yet
	}
	if !e.used.Load() { // the line stays shared when it is set already
		e.used.Store(true)
	}
	return e.budget
}

// must panics in the name of method when NewSet did not make s.
func (s *Set) must(method string) {
	if s == nil || s.max == 0 {
		panic("retrybudget: " + method + ": nil or zero Set; NewSet makes one")
	}
}

// add returns the entry of target, which is new unless another call was faster.
func (s *Set) add(target string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[target]; e != nil {
		return e
	}
	c := newCore(target, s.settings)
	c.floor.shared = &s.burst
	e := &entry{target: target, budget: &Budget{core: c}}
	s.entries[target] = e
	if len(s.clock) < s.max {
		s.clock = append(s.clock, e)
		return e
	}
	for s.clock[s.hand].used.Swap(false) {
		s.hand = (s.hand + 1) % s.max
	}
	old := s.clock[s.hand]
	old.budget.core.retire()
	delete(s.entries, old.target)
	s.clock[s.hand] = e
	s.hand = (s.hand + 1) % s.max
	return e
}
