package drivers

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

var databases atomic.Int64

// shared returns the server that the tests of this package share, with an empty database of the
// test's own.
func shared(tb testing.TB, kind servers.Kind) *servers.Server {
	tb.Helper()
	s := servers.Shared(tb, kind)
	admin := sql.OpenDB(connects[kind](tb, s))
	defer admin.Close()
	name := fmt.Sprintf("test%d", databases.Add(1))
	_, err := admin.ExecContext(context.Background(), "create database "+name)
	require.NoError(tb, err)
	return s.InDatabase(name)
}

var connects = map[servers.Kind]func(testing.TB, *servers.Server) driver.Connector{servers.PostgreSQL: pgxConnector, servers.MariaDB: mysqlConnector}

// number returns the one number that a query gives.
func number(tb testing.TB, db *sql.DB, query string, args ...any) (n int) {
	tb.Helper()
	require.NoError(tb, db.QueryRow(query, args...).Scan(&n), query)
	return n
}
