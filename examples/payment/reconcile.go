package main

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"sync"
	"time"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A reconciler finds out what became of payments whose COMMIT got no answer, and knows which ones are
// under way. Both are notes of this process, for the status of a payment and for whoever is to be told
// of it. A restart forgets them and loses nothing: what is booked stands in the ledger, and a client
// that asks again with its key gets the truth.
type reconciler struct {
	db   *sql.DB
	wake chan struct{}

	mu      sync.Mutex
	running map[string]int            // requests under way, by key; guarded by mu
	unknown map[string]error          // commits without an answer, by key; guarded by mu
	found   map[curfewsql.Outcome]int // guarded by mu
}

func newReconciler(db *sql.DB) *reconciler {
	return &reconciler{
		db: db, wake: make(chan struct{}, 1),
		running: map[string]int{}, unknown: map[string]error{}, found: map[curfewsql.Outcome]int{},
	}
}

// begin notes that a payment is under way, until end is called.
func (r *reconciler) begin(key string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[key]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.running[key]--; r.running[key] == 0 {
			delete(r.running, key)
		}
	}
}

// take takes over a payment whose outcome is not known.
func (r *reconciler) take(key string, commit *curfewsql.CommitError) {
	r.mu.Lock()
	r.unknown[key] = commit
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// open reports whether the payment may still turn out either way.
func (r *reconciler) open(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, unknown := r.unknown[key]
	return unknown || r.running[key] > 0
}

// Each question has a bound of its own, and when the database does not answer all are asked again later.
const (
	resolveAtMost = 5 * time.Second
	resolveAgain  = 200 * time.Millisecond
)

// serve settles what is taken until the service stops; it is the work of a scope.Root.
func (r *reconciler) serve(ctx context.Context) error {
	again := time.NewTicker(resolveAgain)
	defer again.Stop()
	for {
		select {
		case <-scope.Stopping(ctx):
			r.settle(ctx) // what is known by now; the rest is for those who ask again
			return nil
		case <-r.wake:
		case <-again.C:
		}
		r.settle(ctx)
	}
}

// settle asks once for all that is not known.
func (r *reconciler) settle(ctx context.Context) {
	r.mu.Lock()
	open := slices.Collect(maps.Keys(r.unknown))
	r.mu.Unlock()
	for _, key := range open {
		_ = scope.Run(ctx, "reconcile", budget.Within(resolveAtMost), func(ctx context.Context, _ *scope.Scope) error {
			return r.resolve(ctx, key) // an error means later
		})
	}
}

func (r *reconciler) resolve(ctx context.Context, key string) error {
	r.mu.Lock()
	why := r.unknown[key]
	r.mu.Unlock()
	outcome, err := curfewsql.Resolve(ctx, r.db, why, certain(key))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[outcome]++
	if r.unknown[key] == why { // else another request's commit got no answer meanwhile
		delete(r.unknown, key)
	}
	return nil
}

// counts tells how many turned out to be booked, and how many not.
func (r *reconciler) counts() (booked, not int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found[curfewsql.Committed], r.found[curfewsql.NotCommitted]
}
