package drivertest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/curfew-go/curfew/internal/servers"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
)

// patience bounds each question that a server in good health answers at once.
// Machines that run tests are busy, and a passing test does not wait it out.
const patience = 60 * time.Second

// A client asks a server for a sign of life through a real driver.
type client func(ctx context.Context) error

// openClient starts a server of the kind and connects the usual driver to it.
func openClient(t *testing.T, kind servers.Kind) (*servers.Server, client) {
	t.Helper()
	switch kind {
	case servers.Redis:
		s := servers.Start(t, kind)
		return s, redisClient(t, s)
	case servers.PgBouncer:
		s := servers.StartPgBouncer(t, servers.Start(t, servers.PostgreSQL))
		return s, sqlClient(openSQL(t, s))
	default:
		s := servers.Start(t, kind)
		return s, sqlClient(openSQL(t, s))
	}
}

// openSQL opens a server behind database/sql.
func openSQL(t *testing.T, s *servers.Server) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", s.DSN()
	switch s.Kind {
	case servers.MariaDB:
		driver = "mysql"
	case servers.PgBouncer:
		// Statements prepared on one server connection may run on another.
		dsn += "&default_query_exec_mode=exec"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing the pool: %v", err)
		}
	})
	return db
}

func sqlClient(db *sql.DB) client {
	return func(ctx context.Context) error {
		var one int
		return db.QueryRowContext(ctx, "select 1").Scan(&one)
	}
}

func redisClient(t *testing.T, s *servers.Server) client {
	t.Helper()
	options, err := redis.ParseURL(s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	// Without it go-redis waits for its own timeouts and not for ctx, and its
	// retries would hide a dead server.
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1
	db := redis.NewClient(options)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
	})
	return func(ctx context.Context) error { return db.Ping(ctx).Err() }
}
