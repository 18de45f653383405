package race

import (
	"context"
	"sync"

	"github.com/curfew-go/curfew/scope/internal/owner"
)

// Keep makes the context of an attempt outlive the attempt and the race, for a
// value that goes on using it, such as the body of a response that is still being
// read. It is for the attempt's function, which calls it before it returns; ctx is
// the attempt's own context, or one that the standard library derived from it. For
// any other Keep panics.
//
// The context then ends when release is called, when that with which the race was
// called ends, at the race's deadline, and when the attempt loses. release must be
// called once the value is no longer used, also when the attempt fails: until then
// the context stays in memory for as long as that of the race does. It may be
// called several times and from any goroutine.
func Keep(ctx context.Context) (release func()) {
	if ctx == nil {
		panic("race: Keep: nil context")
	}
	end, ok := owner.Keep(ctx)
	if !ok {
		panic("race: Keep: the context is not that of an attempt")
	}
	e := entrantOf(ctx)
	if !e.alone {
		e.contest.hold()
	}
	return sync.OnceFunc(func() {
		end()
		if !e.alone {
			e.contest.drop()
		}
	})
}

// Attempt returns the number of the innermost attempt to which ctx belongs: zero
// for the first one of a Hedge, 1 and so on for those that it added, so that a
// client can mark what it sends and a server can refuse hedges first; in First and
// Quorum the index of its function. It is -1 outside of any attempt. What is opened
// inside an attempt belongs to it.
func Attempt(ctx context.Context) int {
	if ctx == nil {
		panic("race: Attempt: nil context")
	}
	if e := entrantOf(ctx); e != nil {
		return int(e.number)
	}
	return -1
}

// entrantOf returns the attempt to which ctx belongs, nil for none.
func entrantOf(ctx context.Context) *entrant {
	if w, ok := owner.WorkOf(ctx).(interface{ self() *entrant }); ok {
		return w.self()
	}
	return nil
}

func (e *entrant) self() *entrant { return e }
