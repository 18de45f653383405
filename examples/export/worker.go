package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
	"github.com/curfew-go/curfew/scope"
)

// A phase is a part of a job. Whatever ended the process, a job goes on with the phase it was in, and
// each phase knows how to begin again.
type phase struct {
	name string
	run  func(context.Context, *worker, job) error

	// A phase that must finish is not left in the middle: neither a cancel nor the service's own end
	// stops it, only its bound. All others are stoppable.
	mustFinish bool
	atMost     time.Duration // the bound of a phase that must finish
}

const publishing = "publish"

var phases = []phase{
	{name: "collect", run: collect},
	{name: "pack", run: pack},
	{name: publishing, run: publish, mustFinish: true, atMost: 10 * time.Second},
}

// A worker works on jobs. One process works on all jobs of a database: with several, each job would need
// an owner that is written down and expires.
type worker struct {
	jobs  jobs
	files files
	every time.Duration     // how often to ask whether a job was cancelled
	pace  time.Duration     // what each page and each block takes on top, so that there is something to see
	step  func(name string) // called between steps, for whoever wants to kill the process there
}

const (
	jobAtMost   = 10 * time.Minute // of one process
	tidyAtMost  = 2 * time.Second  // for the removal of temporary files
	tellAtMost  = 5 * time.Second  // to write down how a job ended
	finishAgain = 100 * time.Millisecond
)

// work takes the job to its end. It is for Root.Go, whose limit is jobAtMost.
func (w *worker) work(ctx context.Context, id string) error {
	// What ended the phases is kept beside the scope's own error, which does not call a scope shut down
	// because something in it was.
	var why error
	err := scope.Run(ctx, "phases", budget.Inherited().Cleanup(tidyAtMost), func(ctx context.Context, s *scope.Scope) error {
		s.Cleanup("temporary files", func(context.Context) error {
			if why == nil || w.mayGoOn(why) {
				return nil
			}
			return w.files.removeTemporary(id)
		})
		why = w.throughPhases(ctx, s, id)
		return why
	})
	switch {
	case err == nil:
		return nil // publish has written it down
	case why == nil:
		return err // it has not begun, or was not tidied up, which the next process does
	case w.mayGoOn(why):
		return nil
	}
	// The files are gone by now. A process that is killed before the next line finds the job running,
	// and comes here again.
	w.step("end")
	ctx, cancel := budget.Detached(ctx, tellAtMost)
	defer cancel()
	if budget.KindOf(why) == budget.UserCancelled {
		return w.jobs.end(ctx, id, cancelled, "")
	}
	return w.jobs.end(ctx, id, failed, why.Error())
}

// mayGoOn reports whether a later process goes on with a job that was left for this reason.
func (w *worker) mayGoOn(why error) bool {
	return budget.KindOf(why) == budget.Shutdown || errors.Is(why, errUnfinished)
}

// errUnfinished is for what must finish and could not.
var errUnfinished = errors.New("it has to be published yet")

func (w *worker) throughPhases(ctx context.Context, s *scope.Scope, id string) error {
	ctx, stop := w.stoppable(ctx, s, id)
	defer stop()
	at, err := w.jobs.get(ctx, id)
	if err != nil {
		return err
	}
	begun := false
	for _, p := range phases {
		if begun = begun || p.name == at.phase; !begun {
			continue
		}
		if err := w.enter(ctx, p, id); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// stoppable returns a ctx that ends when a user cancels the job and when the service stops.
func (w *worker) stoppable(ctx context.Context, s *scope.Scope, id string) (_ context.Context, stop func()) {
	ctx, unwatch := checkpoint.Watch(ctx, w.jobs.cancels(), id, w.every)
	ctx, end := context.WithCancelCause(ctx)
	s.Service().Go("stopping", func(service context.Context) error {
		select {
		case <-scope.Stopping(service):
			end(&budget.Cause{Kind: budget.Shutdown})
		case <-service.Done():
		}
		return nil
	})
	return ctx, func() { end(nil); unwatch() }
}

// enter runs one phase, unless the job is cancelled.
func (w *worker) enter(ctx context.Context, p phase, id string) error {
	if err := w.jobs.enter(ctx, id, p.name); err != nil {
		return err
	}
	at, err := w.jobs.get(ctx, id)
	if err != nil {
		return err
	}
	if !p.mustFinish {
		return p.run(ctx, w, at)
	}
	ctx, cancel := budget.Detached(ctx, p.atMost)
	defer cancel()
	for {
		err := p.run(ctx, w, at)
		if err == nil {
			return nil
		}
		if wait(ctx, finishAgain) != nil {
			return fmt.Errorf("%w: %w", errUnfinished, err)
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
