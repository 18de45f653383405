package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

// answering answers every query with one value, or with no row.
type answering struct {
	leastConn
	answer func() driver.Value // nil: no row
}

func (a answering) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &answer{next: a.answer}, nil
}

type answer struct{ next func() driver.Value }

func (a *answer) Columns() []string { return []string{"cancelled"} }
func (a *answer) Close() error      { return nil }
func (a *answer) Next(dest []driver.Value) error {
	if a.next == nil {
		return io.EOF
	}
	dest[0], a.next = a.next(), nil
	return nil
}

func TestPollReadsWhatDriversMakeOfABoolean(t *testing.T) {
	for _, c := range []struct {
		answer driver.Value
		want   bool
		err    bool
	}{
		{true, true, false}, {false, false, false}, {int64(1), true, false}, {int64(0), false, false}, {[]byte("1"), true, false},
		{[]byte("0"), false, false}, {"t", true, false}, {"f", false, false}, {nil, false, false}, {"soon", false, true}, {1.5, false, true},
	} {
		var j journal
		db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) {
			return answering{leastConn{&j}, func() driver.Value { return c.answer }}, nil
		}), curfewsql.WithDialect(plain{}))
		got, err := curfewsql.Poll(db, "q").Cancelled(t.Context(), "job")
		assert.Equal(t, c.want, got, "%v", c.answer)
		assert.Equal(t, c.err, err != nil, "%v: %v", c.answer, err)
		db.Close()
	}
	db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return answering{}, nil }), curfewsql.WithDialect(plain{}))
	defer db.Close()
	got, err := curfewsql.Poll(db, "q").Cancelled(t.Context(), "job")
	assert.NoError(t, err)
	assert.False(t, got, "no row")
}

func TestAJobThatIsCancelledInATableStopsAboutWhenItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancelled atomic.Bool
		db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) {
			return answering{answer: func() driver.Value { return cancelled.Load() }}, nil
		}), curfewsql.WithDialect(plain{}))
		defer db.Close()
		ctx, stop := checkpoint.Watch(t.Context(), curfewsql.Poll(db, "q"), "job", 5*time.Second)
		defer stop()
		began := time.Now()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		cancelled.Store(true)
		<-ctx.Done()
		assert.Equal(t, 15*time.Second, time.Since(began))
		assert.Equal(t, budget.UserCancelled, budget.KindOf(context.Cause(ctx)))
	})
}
