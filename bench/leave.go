package bench

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"time"
)

// leave has a client ask for a slow statement and go once it runs. stopped-ms is from
// there until the server runs it no longer, as another connection sees it; returned-ms
// until the handler has returned.
func leave(db, watch *sql.DB, wrap wrapper, slow, seen string) []Metric {
	returned := make(chan time.Time, 1)
	s := httptest.NewServer(wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer func() { returned <- time.Now() }()
		var n any
		_ = db.QueryRowContext(r.Context(), slow).Scan(&n)
	})))
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		must(err)
		if resp, err := s.Client().Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	until(watch, seen, true)
	left := time.Now()
	cancel()
	<-gone
	until(watch, seen, false)
	stopped := time.Since(left)
	return []Metric{{"stopped-ms", ms(stopped)}, {"returned-ms", ms((<-returned).Sub(left))}}
}

// until asks until the server says that the statement runs, or does not.
func until(watch *sql.DB, seen string, runs bool) {
	for start := time.Now(); ; time.Sleep(200 * time.Microsecond) {
		var n int
		must(watch.QueryRow(seen).Scan(&n))
		if (n > 0) == runs {
			return
		}
		if time.Since(start) > patience {
			panic("bench: the database did not begin or end a statement in time")
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
