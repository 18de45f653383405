package retrybudget

import (
	"context"
	"errors"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// Do calls f until it succeeds or another attempt is not to be made. Attempts
// run on the caller's goroutine, one after the other: none is left running when
// Do returns. f must use the context it is given and return when that ends.
//
// A failed attempt is repeated when, in this order: the call has not ended; no
// layer below has retried it already; its Verdict says so; it did not run or the
// Policy is Idempotent; there are Attempts left, and RetryFor; the wait and a
// typical attempt fit the time left; and b allows it. An attempt that timed out
// costs two tokens instead of one, since the target is probably still at work
// on it. Then Do waits. It never waits after the last attempt. What b allowed
// and Do did not use goes back.
//
// The deadline of ctx is the deadline of the call; a reserve taken off it by
// budget.Enter or scope.Run stays untouched. When ctx has ended before the first
// attempt, f is not called and the error is ctx's cause.
//
// The error of a call that was not repeated is that of f, as it is. Otherwise it
// is a *RetriedError, or a *DeniedError when another attempt was wanted and not
// allowed. Both match what f returned, and keep a Do in a layer above from
// repeating the call.
//
// Do panics for a nil ctx, b or f and for a Policy out of bounds. A panic of f passes
// through. A call that succeeds at once costs one small allocation
// (BenchmarkDo).
func Do(ctx context.Context, b *Budget, p Policy, f func(context.Context) error) error {
	if f == nil {
		panic("retrybudget: Do: nil f")
	}
	b.must("Do")
	_, err := run(ctx, b, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// DoValue is Do for a function with a result. Beside an error it returns what
// the last attempt returned.
func DoValue[T any](ctx context.Context, b *Budget, p Policy, f func(context.Context) (T, error)) (T, error) {
	if f == nil {
		panic("retrybudget: DoValue: nil f")
	}
	b.must("DoValue")
	return run(ctx, b, p, f)
}

// Attempt returns the number of the attempt that ctx belongs to, the first being
// 1, and zero outside of Do and DoValue. Of nested ones the innermost counts.
func Attempt(ctx context.Context) int { return ctxnode.AttemptOf(ctx) }

func run[T any](ctx context.Context, b *Budget, p Policy, f func(context.Context) (T, error)) (v T, err error) {
	mustHave(ctx, "Do")
	p.settle()
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	if p.PerAttempt == 0 && p.Gate == nil { // nearly all calls, and a call has much state
		if v, err = f(&ctxnode.Mark{Context: ctx, Attempt: 1}); err == nil {
			b.core.success()
			return v, nil
		}
		return rest(call{ctx: ctx, b: b, p: p, n: 1}, v, err, f)
	}
	c := call{ctx: ctx, b: b, p: p}
	v, err = attempt(&c, f)
	return rest(c, v, err, f)
}

// mustHave panics in the name of function when there is no ctx.
func mustHave(ctx context.Context, function string) {
	if ctx == nil {
		panic("retrybudget: " + function + ": nil context")
	}
}

// rest goes on after the first attempt of c returned v and err.
func rest[T any](c call, v T, err error, f func(context.Context) (T, error)) (T, error) {
	for {
		if err == nil {
			c.b.core.success()
			return v, nil
		}
		if c.refused {
			return v, err
		}
		if err = c.again(err); err != nil {
			return v, err
		}
		var next T
		if next, err = attempt(&c, f); !c.refused {
			v = next
		}
	}
}

// A call is the state of one Do.
type call struct {
	ctx     context.Context
	b       *Budget
	p       Policy
	n       int           // attempts begun
	last    error         // of attempt n-1
	verdict Verdict       // about attempt n, where the gate had to be told
	wait    time.Duration // before attempt n
	token   grant         // what attempt n spent, from the second on
	first   time.Time     // when the first attempt failed; zero without RetryFor
	refused bool          // the attempt did not begin, and its error is the verdict
}

// errPanicked is what a gate is told of an attempt that did not return.
var errPanicked = errors.New("retrybudget: the attempt panicked or ended its goroutine")

// attempt makes one attempt in a context of its own.
func attempt[T any](c *call, f func(context.Context) (T, error)) (v T, err error) {
	c.n++
	m := &ctxnode.Mark{Context: c.ctx, Attempt: c.n}
	if c.p.PerAttempt > 0 {
		// budget's context, and not one of std: its cause names the limit.
		ctx, cancel, err := budget.Enter(c.ctx, budget.Within(c.p.PerAttempt).Named("attempt"))
		defer cancel()
		if err != nil && c.n == 1 {
			c.refused = true
			return v, err
		}
		if err != nil {
			return v, c.refuse("the call ended", err, 0)
		}
		m.Context = ctx
	}
	if c.p.Gate == nil {
		return f(m)
	}
	done, err := c.gate()
	if err != nil {
		return v, c.refuse("refused by the gate", err, c.p.Backoff.ceiling(c.n, c.wait))
	}
	told := errPanicked
	defer func() { done(told) }()
	v, err = f(m)
	told = err // also when the judge panics
	if err != nil {
		if c.verdict = c.judge(err); c.verdict.Answered {
			told = nil
		}
	}
	return v, err
}

// gate asks the gate. When that does not return there is no attempt.
func (c *call) gate() (done func(error), err error) {
	returned := false
	defer func() {
		if !returned && c.n > 1 {
			c.b.giveBack(c.token)
		}
	}()
	done, err = c.p.Gate()
	returned = true
	return done, err
}

// refuse ends the call before attempt n began.
func (c *call) refuse(why string, cause error, wait time.Duration) error {
	c.refused = true
	c.n--
	if c.n > 0 {
		c.b.giveBack(c.token)
	}
	return &DeniedError{Target: c.b.core.target, Attempts: c.n, Why: why, Wait: wait, Last: c.last, Cause: cause}
}
