package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite"
)

// A stockroom is what the warehouse service stands in front of: a pool of workers behind one bounded
// first in, first out queue, and a SQLite file. It is the same for both modes and obeys the context
// that it is given; whether that context carries a deadline is the whole difference between them.
type stockroom struct {
	workers *pool
	slow    atomic.Bool

	db    *sql.DB
	query *sql.Stmt

	pace  pace
	seed  uint64
	meter *meter // set before the first request
}

// openStockroom creates the stock file in dir.
func openStockroom(dir string, pace pace, seed uint64) (*stockroom, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "stock.db"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s := &stockroom{workers: newPool(warehouseWorkers), db: db, pace: pace, seed: seed}
	if err := s.fill(); err != nil {
		return nil, errors.Join(fmt.Errorf("filling the stock file: %w", err), db.Close())
	}
	return s, nil
}

func (s *stockroom) fill() error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`CREATE TABLE stock (sku TEXT PRIMARY KEY, on_hand INTEGER NOT NULL) WITHOUT ROWID`); err != nil {
		return err
	}
	for i := range skus {
		if _, err := tx.Exec(`INSERT INTO stock (sku, on_hand) VALUES (?, ?)`, sku(i), 1000+i); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.query, err = s.db.Prepare(`SELECT on_hand FROM stock WHERE sku = ?`)
	return err
}

func (s *stockroom) close() error { return errors.Join(s.query.Close(), s.db.Close()) }

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
	if ctx.Err() != nil {
		return 0, context.Cause(ctx) // the driver only says that it was interrupted
	}
	return onHand, err
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
	connections = 4 // to the file: a read takes microseconds, so they are nearly always free
)

func sku(i int) string { return fmt.Sprintf("sku-%03d", i%skus) }

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}
