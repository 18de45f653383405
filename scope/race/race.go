package race

import (
	"context"
	"strconv"
	"time"

	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope/internal/owner"
)

// A race is a contest with the values that came.
type race[T any] struct {
	contest
	dispose  func(T)
	terminal func(error) bool
	inline   bool
	fs       []func(context.Context) (T, error) // of First and Quorum
	primary  attempt[T]                         // the first of a Hedge
	one      [1]T                               // where values has its place, when one is enough
	values   []T                                // under mu until the verdict
}

func newRace[T any](c Config[T], name string, need, tries int) *race[T] {
	r := &race[T]{dispose: c.Dispose, terminal: c.Terminal, inline: c.Inline}
	r.name, r.limit, r.need, r.left, r.tries = name, c.Limit, need, tries, tries
	if r.values = r.one[:0]; need > 1 {
		r.values = make([]T, 0, need)
	}
	return r
}

// run enters the race and returns its outcome.
func (r *race[T]) run(ctx context.Context, origin any) ([]T, error) {
	r.changed.L = &r.mu
	r.node.Owner = &r.contest
	if _, err := ctxnode.Hooks.Enter(&r.node, ctx, &r.limit, time.Time{}); err != nil {
		return nil, r.refused(ctx, err)
	}
	r.refs = 1
	over := false
	defer func() {
		if !over { // a panic or a Goexit passes through
			r.disposeAll()
		}
		r.drop()
	}()
	if r.owner = owner.Of(ctx); r.owner != nil {
		r.owned = true
		r.compete(r)
	} else {
		err := owner.Within(&r.node.View, r.name, origin, func(o owner.Scope) error {
			r.owner = o
			r.compete(r)
			return nil
		})
		if err != nil {
			r.notOpened(err)
		}
	}
	over = true
	if err := r.outcome(); err != nil {
		r.disposeAll()
		return nil, err
	}
	return r.values, nil
}

// among runs the race of fs.
func (r *race[T]) among(ctx context.Context, fs []func(context.Context) (T, error)) ([]T, error) {
	r.fs = fs
	return r.run(ctx, fs[0])
}

// single is the outcome of a race for one value.
func single[T any](values []T, err error) (v T, _ error) {
	if err != nil {
		return v, err
	}
	return values[0], nil
}

// play starts what is to run from the beginning, and waits for the verdict.
func (r *race[T]) play() {
	if r.fs == nil {
		r.hedge()
		return
	}
	for i, f := range r.fs {
		if !r.start(&attempt[T]{f: f}, i, r.name+"/"+strconv.Itoa(i)) {
			break
		}
	}
	r.wait()
}

// launch starts the hedge of that number.
func (r *race[T]) launch(number int) {
	r.start(&attempt[T]{f: r.primary.f}, number, r.name+"/hedge-"+strconv.Itoa(number))
}

// hedge starts the first attempt, and the others when they are due.
func (r *race[T]) hedge() {
	a := &r.primary
	if !r.inline {
		r.start(a, 0, r.name)
		r.arm()
		r.wait()
		return
	}
	a.race = r
	r.mu.Lock()
	r.busy = &a.entrant
	entered := r.enterLocked(&a.entrant, 0, r.name)
	r.mu.Unlock()
	if entered {
		r.arm()
		r.owner.Here(&r.node.View, r.name, a, func(h owner.Attempt) { r.started(&a.entrant, h) })
	}
	r.mu.Lock()
	r.busy = nil
	r.mu.Unlock()
	r.wait()
}

// start starts a on a goroutine of its own, unless the race is decided.
func (r *race[T]) start(a *attempt[T], number int, name string) bool {
	a.race = r
	r.mu.Lock()
	entered := r.enterLocked(&a.entrant, number, name)
	r.mu.Unlock()
	if entered {
		r.started(&a.entrant, r.owner.Start(&r.node.View, name, a))
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
