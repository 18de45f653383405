package curfewsql

import (
	"context"
	"database/sql/driver"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
	"github.com/curfew-go/curfew/internal/stress"
)

// counted counts the kills of each id, and keeps the first until it may go on.
type counted struct {
	sent   [100]atomic.Int64
	first  sync.Once
	killed chan struct{} // closed when the first has come
	goOn   chan struct{} // for the first
}

func newCounted() *counted {
	return &counted{killed: make(chan struct{}), goOn: make(chan struct{})}
}

func (c *counted) Connect(context.Context) (driver.Conn, error) { return countedConn{c}, nil }
func (c *counted) Driver() driver.Driver                        { return nil }

type countedConn struct{ c *counted }

func (countedConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (countedConn) Begin() (driver.Tx, error)           { return nil, driver.ErrSkip }
func (countedConn) Close() error                        { return nil }
func (k countedConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	id, err := strconv.Atoi(strings.TrimPrefix(query, "KILL QUERY "))
	k.c.first.Do(func() {
		close(k.c.killed)
		<-k.c.goOn
	})
	k.c.sent[id].Add(1)
	return driver.RowsAffected(0), err
}

// checkLate waits until nothing is left to be sent, and checks that the first n were sent once.
func checkLate(t *testing.T, k *killer, c *counted, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.behind) == 0
	}, 10*time.Second, 50*time.Microsecond)
	k.close()
	for id := range n {
		require.Equal(t, int64(1), c.sent[id].Load(), "of %d", id)
	}
}

func newLateKiller(c *counted) *killer {
	d := dialect.MySQL()
	return newKiller(c, d.(dialect.Killer), d.Judge, slog.New(slog.DiscardHandler))
}

func TestEachLateKillIsSentOnce(t *testing.T) {
	for range stress.Rounds(50) {
		c := newCounted()
		close(c.goOn)
		k := newLateKiller(c)
		var wait sync.WaitGroup
		for worker := range 4 {
			wait.Go(func() {
				for id := worker; id < len(c.sent); id += 4 {
					k.killBehind(int64(id))
				}
			})
		}
		wait.Wait()
		checkLate(t, k, c, len(c.sent))
	}
}

// The second comes in the very moment in which the first has been sent. For that the lock is handed on in
// the order of who waits, as sync.Mutex does once one of them has lost it to somebody else after
// a millisecond of waiting. Where a busy machine has them wait in another order, the test shows nothing.
func TestALateKillThatComesBehindTheLastOneIsSentOnce(t *testing.T) {
	for range stress.Rounds(25) {
		c := newCounted()
		k := newLateKiller(c)
		k.killBehind(0)
		<-c.killed
		var wait sync.WaitGroup
		k.mu.Lock()
		wait.Go(func() {
			k.mu.Lock() // the one that loses it
			defer k.mu.Unlock()
		})
		time.Sleep(3 * time.Millisecond)
		close(c.goOn) // who sends the first waits next
		time.Sleep(3 * time.Millisecond)
		wait.Go(func() { k.killBehind(1) })
		time.Sleep(3 * time.Millisecond)
		k.mu.Unlock()
		k.mu.Lock()
		time.Sleep(3 * time.Millisecond)
		k.mu.Unlock()
		wait.Wait()
		checkLate(t, k, c, 2)
	}
}
