package curfewhttp

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/scope/race"
)

// An outRace is one attempt with a hedge beside it.
type outRace struct {
	c      *outCall
	hedges *retrybudget.Budget

	mu       sync.Mutex
	over     bool        // under mu
	failures []outAnswer // under mu
}

// An outAnswer is how one of the two ended.
type outAnswer struct {
	resp  *http.Response
	err   error
	hedge bool
}

func (c *outCall) hedged(ctx context.Context, b *retrybudget.Budget) (*http.Response, error) {
	r := &outRace{c: c, hedges: b.Hedges()}
	won, err := race.Config[outAnswer]{
		Dispose: func(a outAnswer) { discard(a.resp) },
		After:   c.t.Hedge,
		Gate:    r,
	}.Hedge(ctx, c.target, r.run)
	if err != nil {
		return r.lost(ctx, err)
	}
	if won.hedge {
		c.t.count(meter.HedgeWon, c.label())
	}
	r.settle(nil)
	return won.resp, nil
}

func (r *outRace) run(ctx context.Context) (outAnswer, error) {
	hedge := race.Attempt(ctx) > 0
	// The winner's context lives until its body was read.
	resp, err := r.c.attempt(ctx, hedge, race.Keep(ctx))
	a := outAnswer{resp, err, hedge}
	if err == nil {
		return a, nil
	}
	r.mu.Lock()
	if !r.over {
		r.failures = append(r.failures, a)
		a.resp = nil
	}
	r.mu.Unlock()
	discard(a.resp)
	return outAnswer{}, err
}

// TryTake is part of race.Gate. A race would hedge at once when its first attempt
// fails; after a failure the retries decide, which wait and listen to the target.
func (r *outRace) TryTake() bool {
	r.mu.Lock()
	failed := len(r.failures) > 0
	r.mu.Unlock()
	if failed {
		return false
	}
	ok := r.hedges.TryTake()
	if ok {
		r.c.t.count(meter.HedgeSent, r.c.label())
	} else {
		r.c.t.count(meter.HedgeDenied, r.c.label())
	}
	return ok
}

// lost returns the failure of a race that nobody won: that with a response, else the
// first.
func (r *outRace) lost(ctx context.Context, err error) (*http.Response, error) {
	r.mu.Lock()
	var chosen outAnswer
	for _, a := range r.failures {
		if chosen.err == nil || chosen.resp == nil && a.resp != nil {
			chosen = a
		}
	}
	r.mu.Unlock()
	r.settle(chosen.resp)
	if chosen.err != nil {
		return chosen.resp, chosen.err
	}
	// The attempts have not come back: time is up, or their scope has ended.
	if cause := budget.Require(ctx, 0); budget.KindOf(cause) == budget.DeadlineExceeded {
		// The latest attempt may be one of an earlier race, which has ended otherwise.
		if a := r.c.latest.Load(); a != nil && budget.KindOf(budget.Require(a.Context, 0)) == budget.DeadlineExceeded {
			return nil, a.timeUp()
		}
		return nil, cause
	}
	var e *race.Error
	if errors.As(err, &e) && e.Cause.Kind != budget.Failed {
		return nil, e.Cause
	}
	return nil, err
}

// settle disposes of all failures but that with the response keep, and of those to
// come.
func (r *outRace) settle(keep *http.Response) {
	r.mu.Lock()
	r.over = true
	failures := r.failures
	r.failures = nil
	r.mu.Unlock()
	for _, a := range failures {
		if a.resp != keep {
			discard(a.resp)
		}
	}
}
