package race

import (
	"context"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// First starts all functions at the same time and returns the value of the first
// one that succeeds. The others are cancelled, or not begun where one was that fast;
// their scope waits for them, First does not. The name, which must not be empty,
// stands in errors, and the attempts are called name/0, name/1 and so on.
//
// The error is nil or an [*Error]: all have failed, ctx has ended, or it has no
// deadline. A nil ctx, a nil function and no function at all panic.
func First[T any](ctx context.Context, name string, fs ...func(context.Context) (T, error)) (T, error) {
	return Config[T]{}.First(ctx, name, fs...)
}

// Quorum is First for need values: it returns as soon as that many functions have
// succeeded, with their values in the order in which they came, and fails as soon
// as so many can succeed no more. A need below 1, or above the number of
// functions, panics.
func Quorum[T any](ctx context.Context, name string, need int, fs ...func(context.Context) (T, error)) ([]T, error) {
	return Config[T]{}.Quorum(ctx, name, need, fs...)
}

// Hedge calls f, and calls it once more, beside the first call, when that has not
// returned after the delay, or has failed earlier. It returns what the first call
// that succeeds does, as First. f must bear being called twice at the same time.
//
// Without a delay both calls start at once; a negative one makes it a single call.
// A second call that could only begin after ctx's deadline is not made. The
// attempts are called name and name/hedge-1. See [Config.Hedge] for more of them
// and for a bound on the load they add, which a service under load needs: when a
// backend slows down, everything would be hedged.
func Hedge[T any](ctx context.Context, name string, after time.Duration, f func(context.Context) (T, error)) (T, error) {
	return Config[T]{After: func() time.Duration { return after }}.Hedge(ctx, name, f)
}

// A Config says how a race is run. The zero Config is that of the functions. It is
// a plain value: build it once and use it from any goroutine, any number of times.
type Config[T any] struct {
	// Limit is how long the race may take, all attempts together. The zero Limit
	// is ctx's deadline.
	Limit budget.Limit

	// Dispose is given, once each, the values without an error that the race does
	// not return. It is called on the goroutine of their attempt, whose scope
	// waits for it, or on the caller's; from several goroutines at once, and also
	// after the call has returned. Nil: they are dropped.
	Dispose func(T)

	// Terminal says of an attempt's error that another attempt would not help,
	// such as "not found" or "permission denied": the race fails at once. It is
	// called on the attempts' goroutines. Nil: no error is terminal.
	Terminal func(error) bool

	// After returns how long to wait before the next attempt of a Hedge, counted
	// from the start of the one before; it is asked for each, and before the first
	// attempt begins for the one after that. A negative delay
	// means that there are no more, also not after a failure: for a source of
	// delays that does not know enough yet. Only Hedge uses it, and needs it. It
	// is called on the caller's goroutine, unless that runs the first attempt: see
	// Inline.
	After func() time.Duration

	// Extra is how many attempts a Hedge may add to the first one. Zero is one.
	Extra int

	// Gate is asked before each attempt that a Hedge adds, and bounds them. Nil:
	// they are not bounded.
	Gate Gate

	// Inline runs the first attempt of a Hedge on the caller's goroutine, which
	// saves starting one (BenchmarkHedge). It is for attempts that are known to
	// obey their context: one that does not holds up the call, although another
	// has won. A Goexit in it ends the caller's goroutine, and a panic in it
	// unwinds the caller's stack. After and Gate are then called on goroutines of
	// the race's own, where a panic ends the process.
	Inline bool
}

// A Gate decides whether a hedge may be launched, such as the Hedges of a retry
// budget, which earns what it allows from successes: report them, by
// retrybudget.Do around the race or by its Success. TryTake must not wait. It is
// asked once for each of the attempts that a Hedge may add, when the time for it
// has come: not for the first attempt, and not when the hedge could not begin
// anyhow. A refusal gives that one attempt up; it never fails the call, which goes
// on with those that run. Several races may ask at the same time. Where hedges are to
// keep to a share of the calls in every second, also in the one in which all become slow,
// give the budget a HedgeBurst.
type Gate interface{ TryTake() bool }

// First is the function First with settings.
func (c Config[T]) First(ctx context.Context, name string, fs ...func(context.Context) (T, error)) (T, error) {
	mustBeRace("First", ctx, name, fs)
	r := newRace(&c, name, 1, len(fs))
	return r.single(r.run(ctx, limitOf(&c), fs[0], fs))
}

// Quorum is the function Quorum with settings.
func (c Config[T]) Quorum(ctx context.Context, name string, need int, fs ...func(context.Context) (T, error)) ([]T, error) {
	mustBeRace("Quorum", ctx, name, fs)
	if need < 1 || need > len(fs) {
		panic(fmt.Sprintf("race: Quorum(%q): need %d: must be from 1 to the number of functions, %d", name, need, len(fs)))
	}
	r := newRace(&c, name, need, len(fs))
	values := make([]T, 0, need)
	r.more = &values
	if err := r.run(ctx, limitOf(&c), fs[0], fs); err != nil {
		return nil, err
	}
	return values, nil
}

// Hedge is the function Hedge with settings: it calls f, and up to Extra times
// more, each when After has passed since the attempt before began, or at once
// when an attempt has failed, if the Gate agrees. When it does not agree and
// nothing runs any more, the call fails with what it has. Its attempts are called
// name, name/hedge-1, name/hedge-2 and so on.
//
// A nil After and a negative Extra panic.
func (c Config[T]) Hedge(ctx context.Context, name string, f func(context.Context) (T, error)) (T, error) {
	mustBeRace("Hedge", ctx, name, []func(context.Context) (T, error){f})
	if c.After == nil {
		panic(fmt.Sprintf("race: Hedge(%q): Config.After is nil", name))
	}
	if c.Extra < 0 {
		panic(fmt.Sprintf("race: Hedge(%q): Config.Extra is %d", name, c.Extra))
	}
	r := newRace(&c, name, 1, 1+max(c.Extra, 1))
	r.after, r.gate, r.inline = c.After, c.Gate, c.Inline
	r.primary.f = f
	return r.single(r.run(ctx, limitOf(&c), f, nil))
}

func mustBeRace[T any](verb string, ctx context.Context, name string, fs []func(context.Context) (T, error)) {
	if ctx == nil {
		panic("race: " + verb + ": nil context")
	}
	if name == "" {
		panic("race: " + verb + ": empty name")
	}
	if len(fs) == 0 {
		panic(fmt.Sprintf("race: %s(%q): no function", verb, name))
	}
	for i, f := range fs {
		if f == nil {
			panic(fmt.Sprintf("race: %s(%q): function %d is nil", verb, name, i))
		}
	}
}
