package curfewpgx_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/servers"
	"github.com/curfew-go/curfew/internal/stress"
)

// A thaw is how long a pool took to answer again.
type thaw struct{ first, all time.Duration }

// thawed thaws server, and says when the first of size places of pool had answered, and when all had.
func thawed(t *testing.T, server *servers.Server, pool *pgxpool.Pool, size int) thaw {
	var answered, done sync.WaitGroup
	answered.Add(size)
	took := make([]time.Duration, size)
	began := time.Now()
	server.Thaw()
	for n := range size {
		done.Go(func() {
			conn, err := pool.Acquire(within(t, late))
			if !assert.NoError(t, err) {
				answered.Done()
				return
			}
			defer conn.Release()
			assert.NoError(t, run(within(t, late), conn, "select 1, $1::int"))
			took[n] = time.Since(began)
			answered.Done()
			answered.Wait() // so that nobody is answered twice by one place
		})
	}
	done.Wait()
	return thaw{slices.Min(took), slices.Max(took)}
}

// The first answer, and the one of the last place, are medians over rounds. Plain pgx stands beside them.
func TestAfterAThawEveryPlaceOfThePoolAnswersAgain(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL)
	admin := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec))
	if stress.Level() > 0 { // the login is a part of what is measured: let it cost what it does elsewhere
		_, err := admin.Exec(t.Context(), "alter role curfew password '"+server.Password+"'")
		require.NoError(t, err)
	}
	for name, size := range map[string]int{"one connection": 1, "four connections": 4} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, server, server.Addr(), pgx.QueryExecModeCacheStatement)
			pools := map[string]*pgxpool.Pool{"plain pgx": barePool(t, cfg.Copy(), int32(size)), "ours": newPool(t, cfg, int32(size))}
			thaws := map[string][]thaw{}
			for range stress.Shown(2, 20) {
				for who, pool := range pools {
					fill(t, pool, size)
					frozenInQueries(t, server, admin, pool, size)
					thaws[who] = append(thaws[who], thawed(t, server, pool, size))
				}
			}
			for who, all := range thaws {
				var first, each []time.Duration
				for _, one := range all {
					first, each = append(first, one.first), append(each, one.all)
				}
				slices.Sort(first)
				slices.Sort(each)
				n := len(all) - 1
				t.Logf("%s: first answer %v (most %v), every place %v (most %v)", who, first[n/2], first[n], each[n/2], each[n])
				if who == "ours" && stress.Level() > 0 {
					assert.Less(t, each[n/2], 50*time.Millisecond)
				}
			}
		})
	}
}
