package drivers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"testing"
	"time"

	"github.com/curfew-go/curfew/internal/servers"
)

// BenchmarkLatency compares one statement and one transaction of two, bare and with a
// deadline, in turns, because machines drift: it reports the medians and their ratio. On MariaDB
// it also compares the two texts, both bare, which is what the server alone takes for the limit.
func BenchmarkLatency(b *testing.B) {
	pg, my := shared(b, servers.PostgreSQL), shared(b, servers.MariaDB)
	for _, e := range []struct {
		name      string
		connector driver.Connector
		query     string
	}{
		{"PostgreSQL", pgxConnector(b, pg), "select $1::int"},
		{"MariaDB", mysqlConnector(b, my), "do ?"},
		{"modernc", sqliteConnector(b, sqlites["modernc"], tempFile(b)), "select ?"},
		{"ncruces", sqliteConnector(b, sqlites["ncruces"], tempFile(b)), "select ?"},
	} {
		plain := bare(b, e.connector)
		dbs := [2]*sql.DB{plain, wrap(b, e.connector)}
		walks := map[string]func(context.Context, *sql.DB) error{"exec": exec(e.query, 1), "tx": inTx(e.query, e.query)}
		if e.name == "MariaDB" {
			text := func(db *sql.DB) string {
				if db == plain {
					return e.query
				}
				return "set statement max_statement_time=59.95 for " + e.query
			}
			walks["text alone"] = func(ctx context.Context, db *sql.DB) error { return exec(text(db), 1)(ctx, plain) }
		}
		for name, f := range walks {
			b.Run(e.name+"/"+name, func(b *testing.B) {
				var took [2][]time.Duration
				for b.Loop() {
					for i, db := range dbs {
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						began := time.Now()
						if err := f(ctx, db); err != nil {
							b.Fatal(err)
						}
						took[i] = append(took[i], time.Since(began))
						cancel()
					}
				}
				var median [2]float64
				for i, all := range took {
					slices.Sort(all)
					median[i] = float64(all[len(all)/2].Nanoseconds())
				}
				b.ReportMetric(median[0], "ns/bare")
				b.ReportMetric(median[1], "ns/deadline")
				b.ReportMetric(median[1]/median[0], "ratio")
			})
		}
	}
}
