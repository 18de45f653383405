package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/examples/internal/database"
)

// A stockroom is what the warehouse service stands in front of: a pool of workers behind one bounded
// first in, first out queue, and a database. It is the same for both modes and obeys the context
// that it is given, as does the database; whether that context carries a deadline is the whole
// difference between them.
type stockroom struct {
	workers *pool
	slow    atomic.Bool

	place database.Place
	db    *sql.DB
	query *sql.Stmt

	pace  pace
	seed  uint64
	meter *meter // set before the first request
}

// openStockroom makes the stock at place.
func openStockroom(ctx context.Context, place database.Place, pace pace, seed uint64) (*stockroom, error) {
	db, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s := &stockroom{workers: newPool(warehouseWorkers), place: place, db: db, pace: pace, seed: seed}
	if err := s.fill(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("filling the stock: %w", err), s.close())
	}
	return s, nil
}

func (s *stockroom) fill(ctx context.Context) error {
	err := curfewsql.WithTx(ctx, s.db, budget.Within(fillAtMost), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE stock (sku TEXT PRIMARY KEY, on_hand INTEGER NOT NULL)`); err != nil {
			return err
		}
		for i := range skus {
			if _, err := tx.ExecContext(ctx, `INSERT INTO stock (sku, on_hand) VALUES ($1, $2)`, sku(i), 1000+i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.query, err = s.db.PrepareContext(ctx, `SELECT on_hand FROM stock WHERE sku = $1`)
	return err
}

// close also takes away what the stock is in PostgreSQL, in a bound of its own: the run may have been
// stopped.
func (s *stockroom) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), fillAtMost)
	defer cancel()
	var errs []error
	if s.query != nil {
		errs = append(errs, s.query.Close())
	}
	return errors.Join(append(errs, s.place.Remove(ctx, s.db), s.db.Close())...)
}

// degrade starts the fault: every read that begins from now on is slow.
func (s *stockroom) degrade() { s.slow.Store(true) }

// read occupies the worker for the service time and then reads the stock of sku.
// It stops early when ctx ends; a worker that was never told to stop works to the end.
func (s *stockroom) read(ctx context.Context, sku string) (onHand int, err error) {
	work := s.meter.begin(ctx)
	defer func() { work.end(err == nil) }()

	service := time.NewTimer(s.pace.real(s.serviceTime(work.user, work.call)))
	defer service.Stop()
	select {
	case <-service.C:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	err = s.query.QueryRowContext(ctx, sku).Scan(&onHand)
	return onHand, curfewsql.Error(ctx, err)
}

// serviceTime depends on the seed, the user and the number of the user's call and on nothing else,
// so a call costs the same in both modes and in every run with the same seed.
func (s *stockroom) serviceTime(user, call int) time.Duration {
	if !s.slow.Load() {
		return healthyService
	}
	return slowServiceTime(rand.New(rand.NewPCG(s.seed, uint64(user)<<16|uint64(call))))
}

func slowServiceTime(r *rand.Rand) time.Duration {
	if r.IntN(100) < tailPercent {
		return between(r, tailMin, tailMax)
	}
	return between(r, slowMin, slowMax)
}

const (
	skus        = 200
	connections = 4 // to the database: a read takes microseconds, so they are nearly always free
	fillAtMost  = 10 * time.Second
)

func sku(i int) string { return fmt.Sprintf("sku-%03d", i%skus) }

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}
