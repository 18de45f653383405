package drivertest

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/curfew-go/curfew/internal/servers"
	"github.com/jackc/pgx/v5"
)

func TestServersAnswerThroughTheirDrivers(t *testing.T) {
	for _, kind := range append(slices.Clone(servers.Kinds), servers.PgBouncer) {
		t.Run(string(kind), func(t *testing.T) {
			s, ask := openClient(t, kind)
			mustAnswer(t, ask)

			s.Freeze()
			mustHang(t, ask)
			s.Thaw()
			mustAnswer(t, ask)

			s.Kill()
			mustFail(t, ask)
			s.Restart()
			mustRecover(t, ask)

			s.Stop()
			mustFail(t, ask)
			s.Restart()
			mustRecover(t, ask)
		})
	}
}

func mustAnswer(t *testing.T, ask client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := ask(ctx); err != nil {
		t.Fatalf("no answer: %v", err)
	}
}

// mustHang wants the question to end by its deadline and by nothing else. The
// drivers differ in whether they report ctx's or the socket's, go-redis the
// latter; both say that they are a timeout.
func mustHang(t *testing.T, ask client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := ask(ctx)
	if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
		t.Fatalf("asking a frozen server returned %v, want a timeout", err)
	}
}

// mustFail wants a failure that is not for want of time: nobody listens.
func mustFail(t *testing.T, ask client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := ask(ctx); err == nil || ctx.Err() != nil {
		t.Fatalf("asking a server that is down returned %v, ctx: %v", err, ctx.Err())
	}
}

// mustRecover lets the pool find out, one dead connection at a time.
func mustRecover(t *testing.T, ask client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("no answer within %v of the restart: %v", patience, err)
		}
	}
}

// What was committed is still there after a kill: tests of commit outcomes
// depend on it, and the settings that make servers fast must not undo it.
func TestCommittedRowsSurviveAKill(t *testing.T) {
	for _, kind := range []servers.Kind{servers.PostgreSQL, servers.MariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			s := servers.Start(t, kind)
			db := openSQL(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, statement := range []string{"create table kept (n int)", "insert into kept values (1), (2), (3)"} {
				if _, err := db.ExecContext(ctx, statement); err != nil {
					t.Fatal(err)
				}
			}
			s.Kill()
			s.Restart()
			mustRecover(t, sqlClient(db))
			var n int
			if err := db.QueryRowContext(ctx, "select count(*) from kept").Scan(&n); err != nil || n != 3 {
				t.Errorf("%d rows are left of 3 (%v)", n, err)
			}
		})
	}
}

// Frozen means every session: PostgreSQL's run in processes of their own.
func TestFreezeReachesAnOpenSession(t *testing.T) {
	s := servers.Start(t, servers.PostgreSQL)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())

	s.Freeze()
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "select 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a session of a frozen server answered (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	s.Thaw()
	if err := <-answered; err != nil {
		t.Errorf("the same statement, once thawed: %v", err)
	}
}

func TestLogIsKeptOverRestarts(t *testing.T) {
	s := servers.Start(t, servers.PostgreSQL)
	s.Kill()
	s.Restart()
	if n := strings.Count(s.Log(), "database system is ready to accept connections"); n != 2 {
		t.Errorf("the log tells of %d starts, want 2:\n%s", n, s.Log())
	}
}
