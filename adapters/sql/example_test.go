package curfewsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/checkpoint"
)

func init() { sql.Register("mydriver", old{}) }

// A shop opens its database under a deadline for each order, and knows afterwards what
// became of it.
func ExampleOpen() {
	db, err := curfewsql.Open("mydriver", "app@db.example/shop",
		curfewsql.WithDialect(dialect.SQLite())) // else the first connection asks
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	place := func(ctx context.Context, item string) error {
		return curfewsql.WithTx(ctx, db, budget.Within(300*time.Millisecond).Named("order"),
			func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "insert into orders (item) values (?)", item)
				return err
			})
	}

	err = place(context.Background(), "umbrella")
	var commit *curfewsql.CommitError
	switch {
	case err == nil:
		fmt.Println("placed")
	case errors.As(err, &commit) && commit.Outcome == curfewsql.Unknown:
		fmt.Println("do not repeat it before Resolve has an answer")
	case budget.KindOf(err) == budget.DeadlineExceeded:
		fmt.Println("too slow, and not placed")
	default:
		fmt.Println(err)
	}
	// Output: placed
}

// A service wraps a connector that it has set up, and gives its code a plain *sql.DB.
func ExampleWrap() {
	var connector driver.Connector = connects(func(context.Context) (driver.Conn, error) {
		return leastConn{&journal{}}, nil
	})
	db := curfewsql.Wrap(connector,
		curfewsql.WithDialect(dialect.PostgreSQL()),
		curfewsql.Slush(wire.Slush{Share: 0.1, Floor: 10 * time.Millisecond, Cap: 100 * time.Millisecond}),
		curfewsql.BehindPooler(),
		curfewsql.TrackTx(),
		curfewsql.Log(slog.Default()))
	defer db.Close()
	db.SetMaxOpenConns(10)

	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	var n int
	fmt.Println(db.QueryRowContext(ctx, "select count(*) from orders").Scan(&n), n)
	// Output: <nil> 7
}

// A deadline that has passed ends a transaction before its commit, and the error says
// whose it was.
func ExampleWithTx() {
	db := fakeDB()
	defer db.Close()
	err := curfewsql.WithTx(context.Background(), db, budget.Within(200*time.Millisecond).Named("order"),
		func(ctx context.Context, tx *sql.Tx) error {
			<-ctx.Done() // and does not look why
			return nil
		}, sql.TxOptions{Isolation: sql.LevelDefault})
	var commit *curfewsql.CommitError
	if errors.As(err, &commit) {
		fmt.Println(commit.Outcome, budget.KindOf(err))
	}
	// Output: not_committed deadline_exceeded
}

// A reconciler asks about a commit that got no answer, where the server does not remember.
func ExampleResolve() {
	db := fakeDB()
	defer db.Close()
	lost := &curfewsql.CommitError{Outcome: curfewsql.Unknown, Err: errors.New("the connection broke")}
	outcome, err := curfewsql.Resolve(context.Background(), db, lost, func(ctx context.Context, db *sql.DB) (bool, error) {
		var n int
		err := db.QueryRowContext(ctx, "select count(*) from orders where key = ?", "4711").Scan(&n)
		return n > 0, err
	})
	fmt.Println(outcome, err)
	// Output: committed <nil>
}

// What database/sql says by itself becomes a cause.
func ExampleError() {
	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Minute).Named("GET /order"))
	cancel()
	err := curfewsql.Error(ctx, sql.ErrTxDone)
	fmt.Println(budget.KindOf(err), errors.Is(err, sql.ErrTxDone))
	// Output: cancelled true
}

// A report that may take as long as it takes, in a request that may not.
func ExampleWithout() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, bounded := curfewsql.Without(ctx).Deadline()
	fmt.Println(bounded) // ctx still ends the call from the client
	// Output: true
}

// The driver's own connection is within.
func ExampleUnwrap() {
	db := fakeDB()
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_ = conn.Raw(func(c any) error {
		fmt.Printf("%T\n", curfewsql.Unwrap(c))
		return nil
	})
	// Output: curfewsql_test.leastConn
}

// A job that is cancelled in a table stops.
func ExamplePoll() {
	db := fakeDB()
	defer db.Close()
	src := curfewsql.Poll(db, "select cancelled from jobs where id = ?")
	ctx, stop := checkpoint.Watch(context.Background(), src, "export-17", time.Second)
	defer stop()
	<-ctx.Done()
	fmt.Println(budget.KindOf(context.Cause(ctx)))
	// Output: user_cancelled
}

// quick is MariaDB with a name of its own, as a compatible server may want it.
type quick struct{ dialect.Dialect }

func (quick) Name() string { return "quickdb" }

func ExampleWithDialect() {
	d := quick{dialect.MariaDB()}
	limited := d.Limit(dialect.Statement{Query: "delete from carts"}, 195*time.Millisecond)
	fmt.Println(d.Name(), limited.Query)
	fmt.Println(dialect.MySQL().Limit(dialect.Statement{Query: "select 1"}, 195*time.Millisecond).Query)
	curfewsql.WithDialect(d)
	// Output:
	// quickdb SET STATEMENT max_statement_time=0.195 FOR delete from carts
	// select /*+ MAX_EXECUTION_TIME(195) */ 1
}

// fakeDB answers 7, or yes, to everything.
func fakeDB() *sql.DB {
	return curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return leastConn{&journal{}}, nil }), curfewsql.WithDialect(plain{}))
}
