package curfewsql

import (
	"context"
	"sync"
	"time"
)

// An early is a ctx that ends at a time before the deadline of the one it stands for, or with
// it. A driver that polls Err needs no timer, so the first Done makes it: it was a quarter of
// what a statement of the SQLite of ncruces took (BenchmarkLatency).
type early struct {
	context.Context
	at time.Time

	mu     sync.Mutex
	timed  context.Context // guarded by mu: nil before the first Done
	cancel context.CancelFunc
}

func (e *early) Deadline() (time.Time, bool) { return e.at, true }

func (e *early) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timed == nil {
		e.timed, e.cancel = context.WithDeadline(e.Context, e.at)
	}
	return e.timed.Done()
}

// Value answers from the timer's ctx once there is one, or context.AfterFunc would not know it
// for one of its own and wait on a goroutine: a statement of PostgreSQL then took half as long again.
func (e *early) Value(key any) any {
	if timed := e.made(); timed != nil {
		return timed.Value(key)
	}
	return e.Context.Value(key)
}

func (e *early) made() context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.timed
}

func (e *early) Err() error {
	switch timed := e.made(); {
	case timed != nil:
		return timed.Err()
	case e.Context.Err() != nil:
		return e.Context.Err()
	case !time.Now().Before(e.at):
		return context.DeadlineExceeded
	}
	return nil
}

// release ends the timer, if there is one.
func (e *early) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel != nil {
		e.cancel()
	}
}
