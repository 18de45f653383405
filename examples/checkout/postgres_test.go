package main

import (
	"testing"
	"time"

	"github.com/curfew-go/curfew/examples/internal/database"
	"github.com/curfew-go/curfew/internal/servers"
)

func TestTheStockMayLieInPostgreSQL(t *testing.T) {
	dsn := servers.Start(t, servers.PostgreSQL).DSN() // before TMPDIR is one that only we may enter
	t.Setenv("TMPDIR", t.TempDir())
	p := plan{pace: 2, seed: 1, dsn: dsn, healthy: 2 * time.Second, degraded: time.Second}
	rec, err := p.run(t.Context(), mode{"curfew", startAfter}, &progress{out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	bought := 0
	for _, u := range rec.users {
		if u.outcome == outcomeBought {
			bought++
		}
	}
	if bought == 0 {
		t.Error("nobody bought anything")
	}
	db, err := database.Place{DSN: dsn, Schema: "public"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left int
	if err := db.QueryRowContext(t.Context(), "select count(*) from pg_namespace where nspname like 'curfew%'").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d schemas are left behind, %v", left, err)
	}
}
