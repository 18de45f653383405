package scope

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// Service returns a handle onto s that starts services: tasks which the others
// need until they have ended, such as a writer that the workers send to.
//
// The context of a service ends after the body has returned and all other tasks
// have ended, however the scope ended, and only then; Run waits for it before the
// cleanups. It reports the scope's deadline, but does not end at it. A service
// that fails earlier fails the scope; one that returns nil earlier is done. What
// it returns because it was told to end is no failure. Scope.Wait does not wait
// for services. A handle with a Limit, or an Optional one, has no services: that
// panics.
//
// When its context ends nobody sends to a service any more, but what was sent may
// still stand in a buffer: a service that must lose nothing empties it then.
func (s *Scope) Service() *Scope {
	h := s.with()
	h.mode |= service
	return h.checked("Service")
}

// checked panics for settings that exclude each other.
func (s *Scope) checked(verb string) *Scope {
	if s.mode&service != 0 && s.limited {
		panic("scope: " + verb + ": a service has no limit of its own: it ends after all others")
	}
	return s
}

// enterService makes the context of a service, which others may end as soon as it
// is counted.
func (t *task) enterService(s *Scope) {
	parent := s.in
	if parent == nil {
		parent = &t.core.node.View
	}
	deadline, _ := t.core.node.Deadline()
	t.node = &ctxnode.Node{View: ctxnode.View{Owner: t}, Name: t.name}
	t.node.StartBeside(parent, deadline)
}

// servicesOver ends the context of a service that nobody needs any more.
var servicesOver = &ctxnode.Ending{
	Err: context.Canceled,
	For: func(n *ctxnode.Node) error {
		return &budget.Cause{Kind: budget.Closed, Scope: n.Path(), Err: errAllEnded}
	},
}

var errAllEnded = errors.New("scope: all other tasks have ended")

// endServicesLocked tells the services to end, and reports whether there were any
// to tell. It lets go of node.Mu meanwhile.
func (c *core) endServicesLocked() bool {
	var nodes []*ctxnode.Node
	for t := c.tasks; t != nil; t = t.next {
		if t.mode&service != 0 && t.node.Ending() == nil {
			nodes = append(nodes, t.node)
		}
	}
	if len(nodes) == 0 {
		return false
	}
	c.node.Mu.Unlock()
	for _, n := range nodes {
		n.End(servicesOver)
		n.Cause() // gives the end its instant
	}
	c.node.Mu.Lock()
	return true
}

// ErrNotReady is the error of Start when the task ended well without having said
// that it is ready.
var ErrNotReady = errors.New("scope: task ended without being ready")

// Start starts f in s, as Fork does, and waits until f says that it is ready, with
// a value such as the address it listens on. It returns that value while f goes
// on.
//
// The error is f's own when f ended before, ErrNotReady when that was nil, or the
// cause of the scope's end: a handshake into a scope that dies does not wait for
// f. Only the first call of ready counts, which may come from any goroutine. The
// caller must not be a task that f waits for.
func Start[T any](s *Scope, name string, f func(ctx context.Context, ready func(T)) error) (T, error) {
	mustBeTask("Start", name, f == nil)
	k := &starting[T]{f: f, told: make(chan struct{})}
	t := &task{name: name, work: k}
	s.spawn(t, "Start")

	c := s.c
	c.node.Mu.Lock()
	c.taskWaits++
	c.suspectLocked() // f may wait for the scope, and so for itself: see waiter
	ended := t.endedLocked()
	c.node.Mu.Unlock()
	back := c.lendSlot()
	select {
	case <-k.told:
	case <-ended:
	case <-c.node.Done():
	}
	back()
	c.node.Mu.Lock()
	c.taskWaits--
	c.node.Mu.Unlock()

	select {
	case <-k.told: // also in the same instant
		return k.v, nil
	default:
	}
	var zero T
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	switch {
	case !t.overLocked():
		return zero, c.node.Cause()
	case t.errLocked() == nil:
		return zero, fmt.Errorf("%w: %q", ErrNotReady, name)
	}
	return zero, t.errLocked()
}

// A starting is the work of a task that says when it is ready.
type starting[T any] struct {
	f    func(context.Context, func(T)) error
	once sync.Once
	v    T
	told chan struct{}
}

func (k *starting[T]) call(ctx context.Context, _ *task) error { return k.f(ctx, k.ready) }
func (k *starting[T]) origin(*task) any                        { return k.f }

func (k *starting[T]) ready(v T) {
	k.once.Do(func() {
		k.v = v
		close(k.told)
	})
}

// A Backoff says how a task is started again, see [Scope.Restart]. The zero value
// waits between 100 ms and 30 s and never gives up.
type Backoff struct {
	First time.Duration // the wait after the first failure; 0: 100 ms
	Max   time.Duration // the wait doubles with each failure up to this; 0: 30 s
	Tries int           // failures in a row after which the last one stands; 0: no bound
}

// Restart returns a handle onto s whose tasks are started again when they fail,
// after a wait with full jitter, drawn between zero and the current wait. A run
// that lasted for Max counts as well, so the next failure is the first again.
//
// Only an error is a failure here: a task that returns nil is done, a panic or a
// Goexit is not survived, and what a task returns after its context has ended
// stands. Each restart is told to Trace.TaskRestarted. Negative fields, and a
// First above Max, panic.
func (s *Scope) Restart(b Backoff) *Scope {
	if b.First < 0 || b.Max < 0 || b.Tries < 0 {
		panic(fmt.Sprintf("scope: Restart(%+v): negative", b))
	}
	if b.First == 0 {
		b.First = 100 * time.Millisecond
	}
	if b.Max == 0 {
		b.Max = max(30*time.Second, b.First)
	}
	if b.First > b.Max {
		panic(fmt.Sprintf("scope: Restart: First %v is above Max %v", b.First, b.Max))
	}
	h := s.with()
	h.restart = &b
	return h
}

// A restarter is the work of a task that is started again.
type restarter struct {
	work
	task    *task
	backoff Backoff
}

func (r *restarter) call(ctx context.Context, t *task) error {
	wait, failures := r.backoff.First, 0
	for {
		began := time.Now()
		err := r.work.call(ctx, t)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(began) >= r.backoff.Max {
			wait, failures = r.backoff.First, 0
		}
		if failures++; failures == r.backoff.Tries {
			return err
		}
		pause := time.Duration(rand.Uint64N(uint64(wait) + 1))
		wait += min(wait, r.backoff.Max-wait) // twice as long, without overflow
		r.task.tellRestarted(err, pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
