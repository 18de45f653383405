package curfewpgx_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
)

// A payment that either is there or is not, and says so when it cannot tell.
func ExampleWithTx() {
	pay := func(ctx context.Context, pool *pgxpool.Pool, order int) error {
		err := curfewpgx.WithTx(ctx, pool, budget.Within(300*time.Millisecond), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into payment (order_id) values ($1)", order)
			return err
		})
		var commit *curfewpgx.CommitError
		switch {
		case !errors.As(err, &commit):
			return err // nil, or it did not come as far as COMMIT
		case commit.Outcome == curfewpgx.CommittedLate:
			return nil // late, but paid
		}
		return err
	}
	nobody, _ := pgxpool.New(context.Background(), "postgres://app@127.0.0.1:1/shop")
	defer nobody.Close()
	ctx, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	fmt.Println(budget.KindOf(pay(ctx, nobody, 7)))
	// Output: expired_on_arrival
}

// Who got an Unknown asks once the server can be reached again.
func ExampleResolve() {
	settle := func(ctx context.Context, pool *pgxpool.Pool, err error) string {
		ctx, cancel := budget.Detached(ctx, 5*time.Second) // the request's time is over
		defer cancel()
		outcome, err := curfewpgx.Resolve(ctx, pool, err)
		switch {
		case err != nil:
			return "ask again later: " + err.Error()
		case outcome == curfewpgx.NotCommitted:
			return "pay again"
		}
		return "paid"
	}
	nobody, _ := pgxpool.New(context.Background(), "postgres://app@127.0.0.1:1/shop")
	defer nobody.Close()
	fmt.Println(settle(context.Background(), nobody, &curfewpgx.CommitError{Outcome: curfewpgx.NotCommitted}))
	fmt.Println(settle(context.Background(), nobody, &curfewpgx.CommitError{Outcome: curfewpgx.Unknown}))
	// Output:
	// pay again
	// ask again later: curfewpgx: Resolve: the transaction's id is not known
}

// What a CommitError says.
func ExampleCommitError() {
	err := &curfewpgx.CommitError{Outcome: curfewpgx.Unknown, XID: 4711, Err: errors.New("the connection was lost")}
	fmt.Println(err)
	// Output: curfewpgx: commit unknown: the connection was lost
}

func ExampleWithTxOptions() {
	err := curfewpgx.WithTxOptions(context.Background(), (*pgxpool.Pool)(nil), budget.Inherited(), pgx.TxOptions{IsoLevel: pgx.Serializable},
		func(context.Context, pgx.Tx) error { return nil })
	fmt.Println(errors.Is(err, budget.ErrNoDeadline)) // the caller forgot to set one
	// Output: true
}
