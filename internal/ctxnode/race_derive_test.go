package ctxnode_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A derived context is what somebody made below a context that is ending.
type derived struct {
	how    string
	ctx    context.Context
	stop   func()
	loose  bool // no end from above reaches it
	cause  bool // it shows the parent's own cause
	errs   bool // it shows the parent's own Err
	result func() error
}

// derivers are the ways to make one. All of them may race with the end. The
// first ones, cheap in number, hold nothing but memory.
const cheap = 4

var derivers = []struct {
	name string
	make func(p context.Context) derived
}{
	{"WithCancel", func(p context.Context) derived {
		ctx, cancel := context.WithCancel(p)
		return derived{ctx: ctx, stop: cancel, cause: true, errs: true}
	}},
	{"WithCancel of WithValue", func(p context.Context) derived {
		ctx, cancel := context.WithCancel(context.WithValue(p, key("a"), 1))
		return derived{ctx: ctx, stop: cancel, cause: true, errs: true}
	}},
	{"Enter", func(p context.Context) derived { return entered(budget.Enter(p, budget.Within(time.Hour))) }},
	{"Enter inherited", func(p context.Context) derived { return entered(budget.Enter(p, budget.Inherited())) }},
	{"WithTimeout", func(p context.Context) derived {
		ctx, cancel := context.WithTimeout(p, 2*time.Hour)
		return derived{ctx: ctx, stop: cancel, cause: true, errs: true}
	}},
	{"WithValue", func(p context.Context) derived {
		return derived{ctx: context.WithValue(p, key("a"), 1), stop: func() {}, cause: true, errs: true}
	}},
	{"AfterFunc", func(p context.Context) derived {
		told, tell := context.WithCancelCause(context.Background())
		stop := context.AfterFunc(p, func() { tell(context.Cause(p)) })
		return derived{ctx: told, stop: func() { stop() }, cause: true}
	}},
	{"Enter below a value", func(p context.Context) derived {
		return entered(budget.Enter(context.WithValue(p, key("a"), 1), budget.Within(time.Second*30)))
	}},
	{"Enter below a std child", func(p context.Context) derived {
		std, cancel := context.WithCancel(p)
		d := entered(budget.Enter(std, budget.Within(time.Second*30)))
		stop := d.stop
		d.stop = func() { stop(); cancel() }
		return d
	}},
	{"Run", func(p context.Context) derived { return runNested(p) }},
	{"Run below a value", func(p context.Context) derived { return runNested(context.WithValue(p, key("a"), 1)) }},
	{"Detached", func(p context.Context) derived {
		ctx, cancel := budget.Detached(p, time.Hour)
		return derived{ctx: ctx, stop: cancel, loose: true}
	}},
	{"Enter below WithoutCancel", func(p context.Context) derived {
		d := entered(budget.Enter(context.WithoutCancel(p), budget.Within(time.Hour)))
		d.loose = true
		return d
	}},
}

func entered(ctx context.Context, cancel context.CancelFunc, err error) derived {
	d := derived{ctx: ctx, stop: cancel, errs: true}
	// Refused as expired it is, with the parent's cause behind.
	d.cause = err == nil || budget.KindOf(err) != budget.ExpiredOnArrival
	if err != nil {
		d.result = func() error { return err }
	}
	return d
}

func runNested(p context.Context) derived {
	told, tell := context.WithCancelCause(context.Background())
	returned := make(chan error, 1)
	go func() {
		err := scope.Run(p, "nested", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			return s.Wait()
		})
		var se *scope.Error
		if errors.As(err, &se) {
			tell(se.Cause)
		} else {
			tell(fmt.Errorf("not a scope's error: %w", err))
		}
		returned <- err
	}()
	d := derived{ctx: told, stop: func() {}}
	d.result = func() error { return <-returned }
	return d
}

func resultOf(d derived) <-chan error {
	c := make(chan error, 1)
	go func() { c <- d.result() }()
	return c
}
