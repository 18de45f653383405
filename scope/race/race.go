package race

import (
	"context"
	"errors"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope/internal/owner"
)

// A race is a contest with the values that came.
type race[T any] struct {
	contest
	dispose  func(T)
	terminal func(error) bool
	primary  attempt[T] // the first of a Hedge
	value    T          // the one that has won, when one is enough; under mu until the verdict
	more     *[]T       // all of them, when it is not; likewise
}

func newRace[T any](c *Config[T], name string, need, tries int) *race[T] {
	r := &race[T]{dispose: c.Dispose, terminal: c.Terminal}
	r.race, r.name, r.need, r.left, r.tries = r, name, int32(need), int32(tries), int32(tries)
	return r
}

// limitOf returns the limit of a race in memory of its own, or shared by all that have
// none.
func limitOf[T any](c *Config[T]) *budget.Limit {
	if c.Limit == asCalled {
		return &asCalled
	}
	return apart(c.Limit)
}

// apart returns l in memory of its own.
func apart(l budget.Limit) *budget.Limit { return &l }

// run enters the race under limit, has it run, and returns its outcome: that of fs, or
// with nil a hedge, whose first attempt enters the race by itself where somebody owns it
// (see contest.group). origin is the caller's function.
func (r *race[T]) run(ctx context.Context, limit *budget.Limit, origin any, fs []func(context.Context) (T, error)) error {
	r.refs = 1
	r.owner = owner.Of(ctx)
	r.owned = r.owner != nil
	var delay time.Duration
	var now time.Time // only of a hedge: it has a timer to set
	if fs == nil {
		delay = r.after()
		now = time.Now()
	}
	var err error
	if fs == nil && r.owned {
		err = r.enterAlone(ctx, limit, now)
	} else {
		err = r.enterGroup(ctx, limit, now)
	}
	if err != nil {
		return r.refused(ctx, err)
	}
	over, alone := false, false
	defer func() {
		if !over { // a panic or a Goexit passes through
			r.disposeAll()
		}
		if !alone {
			r.drop()
		}
	}()
	if r.owned {
		alone = r.compete(fs, delay, now)
	} else {
		err := owner.Within(&r.group.Node.View, r.name, origin, func(o owner.Scope) error {
			r.owner = o
			r.compete(fs, delay, now)
			return nil
		})
		if err != nil {
			r.notOpened(err)
		}
	}
	over = true
	if r.verdict == won { // it does not change any more
		return nil
	}
	r.disposeAll()
	return r.outcome(ctx)
}

// compete starts what is to run from the beginning, and waits for the verdict. When
// that unwinds, it stops all who still run, before the scope that may have been
// opened for the race waits for them. It reports whether the first attempt has won
// alone, and has run here: then nothing else is to be done.
func (r *race[T]) compete(fs []func(context.Context) (T, error), delay time.Duration, now time.Time) (alone bool) {
	over := false
	defer func() {
		if !over {
			r.leave()
		}
	}()
	if fs == nil {
		alone = r.hedge(delay, now)
	} else {
		for i, f := range fs {
			if !r.start(&attempt[T]{f: f}, i) {
				break
			}
		}
	}
	if !alone {
		r.wait()
	}
	over = true
	return alone
}

// single is the outcome of a race for one value that ended with err.
func (r *race[T]) single(err error) (v T, _ error) {
	if err != nil {
		return v, err
	}
	return r.value, nil
}

// launch starts the hedge of that number.
func (r *race[T]) launch(number int) { r.start(&attempt[T]{f: r.primary.f}, number) }

// hedge starts the first attempt, and sees to it that the others are when they are
// due: when the delay has passed since now. Its answer is compete's.
func (r *race[T]) hedge(delay time.Duration, now time.Time) (alone bool) {
	a := &r.primary
	if !a.alone {
		if err := r.enterBelow(); err != nil {
			if err != errDecided {
				a.Finished(err)
			}
			return false
		}
	}
	r.mu.Lock()
	if r.inline {
		r.busy = true
	}
	r.armLocked(delay, now)
	r.unlock()
	if !r.inline {
		a.handle.Go()
		return false
	}
	if a.handle.Here() && a.wonAlone {
		return true
	}
	r.mu.Lock()
	r.busy = false
	r.mu.Unlock()
	return false
}

// asCalled is the limit of a race that has none of its own, and of attempts whose race
// has it.
var asCalled = budget.Inherited()

// errDecided is why the first attempt of a hedge is not made.
var errDecided = errors.New("race: decided")

// enterAlone begins the race with the context of the first attempt of a hedge. Nobody
// else knows the race before that is there, and then only who ends it.
func (r *race[T]) enterAlone(ctx context.Context, limit *budget.Limit, now time.Time) (err error) {
	a := &r.primary
	a.alone = true
	r.addLocked(&a.entrant, 0)
	a.handle, err = r.owner.Enter(ctx, r.name, a, limit, now)
	return err
}

// enterBelow makes the context of the first attempt of a hedge below the group. After
// errDecided the attempt is not in the race.
func (r *race[T]) enterBelow() error {
	a := &r.primary
	r.mu.Lock()
	entered := r.enterLocked(&a.entrant, 0)
	r.mu.Unlock()
	if !entered {
		return errDecided
	}
	h, err := r.owner.Enter(&r.group.Node.View, r.name, a, &asCalled, time.Time{})
	if err != nil {
		return err
	}
	r.mu.Lock()
	a.handle = h
	r.mu.Unlock()
	return nil
}

// start starts a on a goroutine of its own, unless the race is decided.
func (r *race[T]) start(a *attempt[T], number int) bool {
	r.mu.Lock()
	entered := r.enterLocked(&a.entrant, number)
	r.mu.Unlock()
	if entered {
		r.started(&a.entrant, r.owner.Start(&r.group.Node.View, r.nameOf(&a.entrant), a))
	}
	return entered
}

// disposeAll disposes of the values of a race that is decided, by which they do not
// change any more, and does not return them.
func (r *race[T]) disposeAll() {
	switch {
	case r.dispose == nil:
	case r.more != nil:
		for _, v := range *r.more {
			r.dispose(v)
		}
	case r.won > 0:
		r.dispose(r.value)
	}
}

// An attempt is one call of a function.
type attempt[T any] struct {
	entrant
	f func(context.Context) (T, error)
}

func (a *attempt[T]) race() *race[T] { return a.contest.race.(*race[T]) }

// Origin is part of owner.Work.
func (a *attempt[T]) Origin() any { return a.f }

// Call is part of owner.Work. All that is the caller's code runs in here, where a
// panic is one of the attempt.
func (a *attempt[T]) Call(ctx context.Context) error {
	v, err := a.f(ctx)
	a.returned = true
	if err != nil {
		r := a.race()
		a.terminal = r.terminal != nil && r.goesOn() && r.terminal(err)
		return err
	}
	if r := a.race(); !a.deliver(r, v) && r.dispose != nil {
		r.dispose(v)
	}
	return nil
}

// deliver reports whether the race takes v.
func (a *attempt[T]) deliver(r *race[T], v T) bool {
	r.mu.Lock()
	defer r.unlock()
	if !r.wonLocked(&a.entrant) {
		return false
	}
	if r.more != nil {
		*r.more = append(*r.more, v)
	} else {
		r.value = v
	}
	return true
}
