package curfewpgx_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
	"github.com/curfew-go/curfew/internal/netproxy"
	"github.com/curfew-go/curfew/internal/stress"
)

var _ checkpoint.Source = (*curfewpgx.Listener)(nil)

// A desk is where jobs are cancelled, and a Listener that looks there through a proxy.
type desk struct {
	conn     *pgx.Conn
	proxy    *netproxy.Proxy
	listener *curfewpgx.Listener
}

const cancelledJobs = "select id from jobs where cancelled and id = any($1)"

func newDesk(t *testing.T, c curfewpgx.ListenConfig, configure bool) *desk {
	server := start(t)
	d := &desk{conn: bare(t, config(t, server, server.Addr(), pgx.QueryExecModeExec)), proxy: netproxy.New(t, server.Addr())}
	_, err := d.conn.Exec(t.Context(), "create table jobs (id text primary key, cancelled bool not null default false)")
	require.NoError(t, err)
	_, err = d.conn.Exec(t.Context(), "insert into jobs select 'job-' || n from generate_series(1, 500) n")
	require.NoError(t, err)
	cfg := config(t, server, d.proxy.Addr(), pgx.QueryExecModeCacheStatement)
	if configure {
		curfewpgx.Configure(cfg)
	}
	c.Channel = "Jobs; of \"ours\""
	if c.Query == "" {
		c.Query = cancelledJobs
	}
	d.listener = curfewpgx.Listen(cfg, c)
	t.Cleanup(d.listener.Close)
	return d
}

func (d *desk) set(t *testing.T, job string, cancelled bool) {
	_, err := d.conn.Exec(t.Context(), "update jobs set cancelled = $2 where id = $1", job, cancelled)
	require.NoError(t, err)
}

func (d *desk) tell(t *testing.T, payload string) {
	_, err := d.conn.Exec(t.Context(), "select pg_notify($1, $2)", "Jobs; of \"ours\"", payload)
	require.NoError(t, err)
}

func (d *desk) cancelled(t *testing.T, job string) bool {
	t.Helper()
	yes, err := d.listener.Cancelled(within(t, late), job)
	require.NoError(t, err)
	return yes
}

// soon waits until job is cancelled, or is not, in the listener's eyes.
func (d *desk) soon(t *testing.T, job string, cancelled bool) {
	t.Helper()
	assert.Eventually(t, func() bool { return d.cancelled(t, job) == cancelled }, late, time.Millisecond, job)
}

func TestACancelIsToldToAllWhoWatchOverOneConnection(t *testing.T) {
	for _, configured := range []bool{true, false} {
		t.Run(fmt.Sprint("configured ", configured), func(t *testing.T) {
			d := newDesk(t, curfewpgx.ListenConfig{Refresh: time.Hour}, configured)
			d.set(t, "job-1", true)
			var watches []context.Context
			for n := range 100 {
				ctx, stop := checkpoint.Watch(t.Context(), d.listener, fmt.Sprint("job-", n+1), time.Millisecond)
				defer stop()
				watches = append(watches, ctx)
			}
			<-watches[0].Done() // was cancelled before it began
			assert.False(t, d.cancelled(t, "job-50"))
			d.set(t, "job-50", true)
			d.tell(t, "job-50")
			select {
			case <-watches[49].Done():
			case <-time.After(late):
				t.Fatal("nobody was told")
			}
			assert.Equal(t, budget.UserCancelled, budget.KindOf(context.Cause(watches[49])))
			assert.NoError(t, watches[50].Err())
			assert.Equal(t, int64(1), d.proxy.Conns())
		})
	}
}

func TestWhatIsWrittenDownIsTheTruthAndNotANotification(t *testing.T) {
	d := newDesk(t, curfewpgx.ListenConfig{Refresh: time.Hour}, true)
	for _, job := range []string{"job-1", "job-2", "nobody's"} {
		assert.False(t, d.cancelled(t, job))
	}
	d.tell(t, "job-1") // which is not cancelled
	d.set(t, "job-2", true)
	d.tell(t, "") // of all
	d.soon(t, "job-2", true)
	assert.False(t, d.cancelled(t, "job-1"))
	d.set(t, "job-2", false) // may run again
	d.tell(t, "job-2")
	d.soon(t, "job-2", false)
}

func TestMemoryAnswersAndTheServerIsNotAsked(t *testing.T) {
	d := newDesk(t, curfewpgx.ListenConfig{Refresh: time.Hour}, true)
	assert.False(t, d.cancelled(t, "job-1"))
	turns := d.proxy.Turns()
	for range 1000 {
		assert.False(t, d.cancelled(t, "job-1"))
	}
	assert.Equal(t, turns, d.proxy.Turns())
}

func TestACancelIsSeenThatWasMadeWhileTheConnectionWasAway(t *testing.T) {
	d := newDesk(t, curfewpgx.ListenConfig{Refresh: time.Hour}, true)
	for n := range stress.Shown(5, 100) {
		early, job := fmt.Sprint("job-", 2*n+1), fmt.Sprint("job-", 2*n+2)
		assert.False(t, d.cancelled(t, job))
		d.set(t, early, true)
		assert.True(t, d.cancelled(t, early))
		switch n % 3 {
		case 0:
			_, err := d.conn.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
			require.NoError(t, err)
		case 1:
			d.proxy.Reset()
		case 2:
			d.proxy.Cut()
		}
		d.set(t, job, true)
		d.tell(t, job)
		d.soon(t, job, true)
		assert.True(t, d.cancelled(t, early), "it still is")
	}
	assert.Greater(t, d.proxy.Conns(), int64(4))
}

func TestAConnectionThatIsLostWithoutASignIsFoundOut(t *testing.T) {
	d := newDesk(t, curfewpgx.ListenConfig{Refresh: 500 * time.Millisecond}, true)
	assert.False(t, d.cancelled(t, "job-1"))
	d.proxy.Lose(true)
	d.set(t, "job-1", true)
	d.tell(t, "job-1")
	require.Eventually(t, func() bool { // a connection that was lost is one of which nothing is known
		_, err := d.listener.Cancelled(within(t, 10*time.Millisecond), "job-1")
		return err != nil
	}, late, 10*time.Millisecond)
	_, err := d.listener.Cancelled(within(t, 10*time.Millisecond), "job-1")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NotRegexp(t, "127|curfew database|user=", err.Error())
	d.proxy.Lose(false)
	d.soon(t, "job-1", true)
}

func TestAListenerIsBoundedAndSaysWhatIsWrong(t *testing.T) {
	d := newDesk(t, curfewpgx.ListenConfig{MaxJobs: 2}, true)
	assert.False(t, d.cancelled(t, "job-1"))
	assert.False(t, d.cancelled(t, "job-2"))
	assert.False(t, d.cancelled(t, "job-1"))
	_, err := d.listener.Cancelled(t.Context(), "job-3")
	assert.EqualError(t, err, "curfewpgx: Cancelled: 2 jobs are watched already")
	d.listener.Close()
	d.listener.Close()
	_, err = d.listener.Cancelled(t.Context(), "job-2")
	assert.EqualError(t, err, "curfewpgx: Cancelled: the Listener is closed")

	wrong := newDesk(t, curfewpgx.ListenConfig{Query: "select nothing from nowhere where $1 is null"}, true)
	assert.Eventually(t, func() bool {
		_, err := wrong.listener.Cancelled(within(t, 100*time.Millisecond), "job-1")
		return stateOf(err) == "42P01"
	}, late, time.Millisecond)
	wrong.listener.Close()
	_, err = wrong.listener.Cancelled(t.Context(), "job-1")
	assert.EqualError(t, err, "curfewpgx: Cancelled: the Listener is closed")

	cfg := config(t, start(t), d.proxy.Addr(), pgx.QueryExecModeExec)
	for text, c := range map[string]curfewpgx.ListenConfig{
		"curfewpgx: Listen: empty Channel":            {Query: "q"},
		"curfewpgx: Listen: empty Query":              {Channel: "c"},
		"curfewpgx: Listen: Refresh -1ns is negative": {Channel: "c", Query: "q", Refresh: -1},
		"curfewpgx: Listen: MaxJobs -1 is negative":   {Channel: "c", Query: "q", MaxJobs: -1},
	} {
		assert.PanicsWithValue(t, text, func() { curfewpgx.Listen(cfg, c) })
	}
	assert.PanicsWithValue(t, "curfewpgx: Listen: nil cfg", func() { curfewpgx.Listen(nil, curfewpgx.ListenConfig{}) })
	assert.PanicsWithValue(t, "curfewpgx: Cancelled: empty job", func() { _, _ = d.listener.Cancelled(t.Context(), "") })
}
