package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/curfew-go/curfew/internal/servers"
)

// limited returns the ctx that statements run under, and is the one place that
// says how it is made.
func limited(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestContextThroughDatabaseSQL(t *testing.T) {
	const (
		limit = 100 * time.Millisecond
		// A statement that nobody cuts takes this long. The limit must have
		// ended it well before, with room for a busy machine.
		sleep = 5 * time.Second
		late  = 4 * time.Second
	)
	for _, c := range []struct {
		kind  servers.Kind
		sleep string
	}{
		{servers.PostgreSQL, "select pg_sleep(5)"},
		{servers.MariaDB, "select sleep(5)"},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			db := openSQL(t, servers.Start(t, c.kind))
			ask := sqlClient(db)
			mustAnswer(t, ask) // connected before the clock starts

			started := time.Now()
			_, err := db.ExecContext(limited(t, limit), c.sleep)
			took := time.Since(started)

			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s under %v returned %v, want the deadline", c.sleep, limit, err)
			}
			if took < limit || took > late {
				t.Errorf("%s under %v took %v of %v", c.sleep, limit, took, sleep)
			}
			mustAnswer(t, ask) // the pool is still good
		})
	}
}
