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
	one      [1]T       // where values has its place, when one is enough
	values   []T        // under mu until the verdict
}

func newRace[T any](c Config[T], name string, need, tries int) *race[T] {
	r := &race[T]{dispose: c.Dispose, terminal: c.Terminal}
	r.name, r.limit, r.need, r.left, r.tries = name, c.Limit, int32(need), int32(tries), int32(tries)
	if r.values = r.one[:0]; need > 1 {
		r.values = make([]T, 0, need)
	}
	return r
}

// run enters the race, has it run, and returns its outcome: that of fs, or with nil
// a hedge, whose first attempt enters the race by itself where somebody owns it (see
// contest.group). origin is the caller's function.
func (r *race[T]) run(ctx context.Context, origin any, fs []func(context.Context) (T, error)) ([]T, error) {
	r.parent, r.refs, r.began = ctx, 1, time.Now()
	r.owner = owner.Of(ctx)
	r.owned = r.owner != nil
	var delay time.Duration
	var err error
	if fs == nil && r.inline {
		delay = r.after()
	}
	if fs == nil && r.owned {
		r.primary.alone = true
		err = r.enter(ctx, &r.limit)
	} else {
		err = r.enterGroup()
	}
	if err != nil {
		return nil, r.refused(err)
	}
	over := false
	defer func() {
		if !over { // a panic or a Goexit passes through
			r.disposeAll()
		}
		r.drop()
	}()
	if r.owned {
		r.compete(fs, delay)
	} else {
		err := owner.Within(&r.group.Node.View, r.name, origin, func(o owner.Scope) error {
			r.owner = o
			r.compete(fs, delay)
			return nil
		})
		if err != nil {
			r.notOpened(err)
		}
	}
	over = true
	if r.verdict == won { // it does not change any more
		return r.values, nil
	}
	r.disposeAll()
	return nil, r.outcome()
}

// compete starts what is to run from the beginning, and waits for the verdict. When
// that unwinds, it stops all who still run, before the scope that may have been
// opened for the race waits for them.
func (r *race[T]) compete(fs []func(context.Context) (T, error), delay time.Duration) {
	over := false
	defer func() {
		if !over {
			r.leave()
		}
	}()
	if fs == nil {
		r.hedge(delay)
	} else {
		for i, f := range fs {
			if !r.start(&attempt[T]{f: f}, i) {
				break
			}
		}
	}
	r.wait()
	over = true
}

// single is the outcome of a race for one value.
func single[T any](values []T, err error) (v T, _ error) {
	if err != nil {
		return v, err
	}
	return values[0], nil
}

// launch starts the hedge of that number.
func (r *race[T]) launch(number int) { r.start(&attempt[T]{f: r.primary.f}, number) }

// hedge starts the first attempt, and sees to it that the others are when they are
// due. The delay until then is known when the first one is inline.
func (r *race[T]) hedge(delay time.Duration) {
	a := &r.primary
	if a.handle == nil {
		if err := r.enter(&r.group.Node.View, &asCalled); err != nil {
			if err != errDecided {
				a.Finished(err)
			}
			return
		}
	}
	if !r.inline {
		a.handle.Go()
		r.arm()
		return
	}
	r.mu.Lock()
	r.busy = &a.entrant
	r.armLocked(delay, r.began)
	r.unlock()
	a.handle.Here()
	r.mu.Lock()
	r.busy = nil
	r.mu.Unlock()
}

// asCalled is the limit of attempts whose race has its own.
var asCalled = budget.Inherited()

// errDecided is why the first attempt of a hedge is not made.
var errDecided = errors.New("race: decided")

// enter makes the context of the first attempt of a hedge, under ctx and limit. After
// errDecided the attempt is not in the race.
func (r *race[T]) enter(ctx context.Context, limit *budget.Limit) error {
	a := &r.primary
	a.race = r
	r.mu.Lock()
	entered := r.enterLocked(&a.entrant, 0)
	r.mu.Unlock()
	if !entered {
		return errDecided
	}
	h, err := r.owner.Enter(ctx, r.name, a, limit, r.began)
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
	a.race = r
	r.mu.Lock()
	entered := r.enterLocked(&a.entrant, number)
	r.mu.Unlock()
	if entered {
		r.started(&a.entrant, r.owner.Start(&r.group.Node.View, r.nameOf(&a.entrant), a))
	}
	return entered
}

// disposeAll disposes of the values of a race that does not return them.
func (r *race[T]) disposeAll() {
	r.mu.Lock()
	values := r.values
	r.values = nil
	r.mu.Unlock()
	if r.dispose == nil {
		return
	}
	for _, v := range values {
		r.dispose(v)
	}
}

// An attempt is one call of a function.
type attempt[T any] struct {
	entrant
	race *race[T]
	f    func(context.Context) (T, error)
}

// Origin is part of owner.Work.
func (a *attempt[T]) Origin() any { return a.f }

// Call is part of owner.Work. All that is the caller's code runs in here, where a
// panic is one of the attempt.
func (a *attempt[T]) Call(ctx context.Context) error {
	v, err := a.f(ctx)
	a.returned = true
	if err != nil {
		a.terminal = a.race.terminal != nil && a.race.goesOn() && a.race.terminal(err)
		return err
	}
	if !a.deliver(v) && a.race.dispose != nil {
		a.race.dispose(v)
	}
	return nil
}

// deliver reports whether the race takes v.
func (a *attempt[T]) deliver(v T) bool {
	r := a.race
	r.mu.Lock()
	defer r.unlock()
	if !r.wonLocked(&a.entrant) {
		return false
	}
	r.values = append(r.values, v)
	return true
}
