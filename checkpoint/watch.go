package checkpoint

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Source knows which jobs somebody has cancelled, also from another process. It is
// used by many goroutines at once.
type Source interface {
	// Cancelled reports whether job was cancelled. It obeys ctx, which has a deadline.
	// An error says nothing about the job: it is asked again later.
	Cancelled(ctx context.Context, job string) (bool, error)
}

// minAsk is the least time that a source has for its answer.
const minAsk = time.Second

// Watch returns a context that ends when job is cancelled in src, and like any child
// of ctx when ctx ends or when the returned function is called, which must happen
// when the work is over. Watch asks src at once and then every so often, from a
// goroutine of its own that ends with the context; each question has that long for
// an answer, and at least a second. So a cancel is seen about every after it was
// made, and does no harm where src cannot be reached: work goes on, and src is asked
// again. Nobody is told of such an error; a Source that matters counts its own.
//
// When job was cancelled the cause of the context is a *budget.Cause of kind
// UserCancelled that names job. A nil ctx or src, an empty job, and an every of zero
// or less panic.
func Watch(ctx context.Context, src Source, job string, every time.Duration) (context.Context, context.CancelFunc) {
	switch {
	case ctx == nil:
		panic("checkpoint: Watch: nil context")
	case src == nil:
		panic("checkpoint: Watch: nil source")
	case job == "":
		panic("checkpoint: Watch: empty job")
	case every <= 0:
		panic(fmt.Sprintf("checkpoint: Watch: every %v is not positive", every))
	}
	ctx, end := context.WithCancelCause(ctx)
	go watch(ctx, end, src, job, every)
	return ctx, func() { end(&budget.Cause{Kind: budget.Cancelled}) }
}

// watch asks src until job was cancelled, which ends ctx, or until ctx ends.
func watch(ctx context.Context, end context.CancelCauseFunc, src Source, job string, every time.Duration) {
	asking := false
	defer func() {
		if asking { // src called runtime.Goexit, which says no more than an error; or it panics, and all ends here
			go func() {
				if wait(ctx, every) {
					watch(ctx, end, src, job, every)
				}
			}()
		}
	}()
	for {
		asking = true
		yes := cancelled(ctx, src, job, max(every, minAsk))
		asking = false
		if yes {
			end(&budget.Cause{Kind: budget.UserCancelled, Err: fmt.Errorf("checkpoint: job %q was cancelled", job)})
			return
		}
		if !wait(ctx, every) {
			return
		}
	}
}

// wait waits for d, and reports false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// cancelled asks src once, for no longer than bound.
func cancelled(ctx context.Context, src Source, job string, bound time.Duration) bool {
	ctx, cancel, err := budget.Enter(ctx, budget.Within(bound).Named("watch"))
	defer cancel()
	if err != nil {
		return false
	}
	yes, err := src.Cancelled(ctx, job)
	return yes && err == nil
}

// Memory is a Source within one process: for tests, and for jobs that are cancelled
// where they run. The zero Memory is ready to use, by many goroutines; it must not
// be copied. It remembers each cancelled job until it is forgotten.
type Memory struct {
	mu   sync.Mutex
	jobs map[string]struct{} // protected by mu
}

// Cancel cancels job, which need not have begun.
func (m *Memory) Cancel(job string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs == nil {
		m.jobs = make(map[string]struct{})
	}
	m.jobs[job] = struct{}{}
}

// Forget forgets that job was cancelled: when it has ended, or to let it run again.
// A context that has ended by then stays so.
func (m *Memory) Forget(job string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.jobs, job)
}

// Cancelled reports whether job was cancelled and not forgotten. It is part of
// Source, and its error is always nil.
func (m *Memory) Cancelled(_ context.Context, job string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, yes := m.jobs[job]
	return yes, nil
}
