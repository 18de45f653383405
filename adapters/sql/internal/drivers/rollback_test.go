package drivers

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/servers"
)

// Under innodb_rollback_on_timeout what comes behind a 1205 would be committed by itself, and
// without it the transaction goes on.
func TestALockTimeoutThatEndsTheTransactionOnMariaDBIsSeen(t *testing.T) {
	atOnce(t)
	for name, ends := range map[string]bool{"it ends": true, "it goes on": false} {
		t.Run(name, func(t *testing.T) {
			var s *servers.Server
			if ends {
				s = servers.Start(t, servers.MariaDB, "innodb_rollback_on_timeout=on")
			} else {
				s = shared(t, servers.MariaDB)
			}
			p := netproxy.New(t, s.Addr())
			db := wrap(t, mysqlWith(t, s, func(cfg *mysql.Config) {
				cfg.Addr, cfg.Params = p.Addr(), map[string]string{"innodb_lock_wait_timeout": "1"}
			}))
			must(t, db, "create table l (n int primary key)", "insert into l values (1)", "create table kept (n int)")
			holder, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer holder.Rollback()
			_, err = holder.Exec("update l set n = 2")
			require.NoError(t, err)
			for name, wait := range map[string]func(*sql.Tx) error{
				"exec": func(tx *sql.Tx) error {
					_, err := tx.ExecContext(within(t, time.Minute), "update l set n = 3")
					return err
				},
				"query": func(tx *sql.Tx) error { return tx.QueryRow("select n from l for update").Scan(new(int)) },
			} {
				tx, err := db.BeginTx(within(t, patience), nil)
				require.NoError(t, err)
				_, err = tx.Exec("insert into kept values (7)")
				require.NoError(t, err)
				before := p.Turns()
				assert.Equal(t, 1205, mysqlNumber(wait(tx)), name)
				assert.LessOrEqual(t, p.Turns()-before, int64(2), "one to ask")
				_, err = tx.Exec("insert into kept values (8)")
				over := (*curfewsql.TxError)(nil)
				assert.Equal(t, ends, errors.As(err, &over), "%s: %v", name, err)
				err = tx.Commit()
				if !ends {
					require.NoError(t, err)
					assert.Equal(t, 2, number(t, db, "select count(*) from kept"))
					must(t, db, "delete from kept")
					continue
				}
				commit := (*curfewsql.CommitError)(nil)
				require.ErrorAs(t, err, &commit)
				assert.Equal(t, curfewsql.NotCommitted, commit.Outcome)
				assert.Equal(t, 1205, mysqlNumber(err))
				assert.Zero(t, number(t, db, "select count(*) from kept"))
			}
			assert.Equal(t, 1, db.Stats().InUse, "the holder's")
		})
	}
}
