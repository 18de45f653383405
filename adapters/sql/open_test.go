package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
)

// mute is a connection of a server that answers no question.
type mute struct{ leastConn }

func (mute) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCloseDoesNotWaitForAServerThatDoesNotSayWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return mute{}, nil }))
		failed := make(chan error)
		for range 2 { // one asks, and one waits for its answer
			go func() { failed <- db.PingContext(context.Background()) }()
		}
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- db.Close() }()
		require.NoError(t, <-closed) // or the bubble is at a deadlock
		for range 2 {
			assert.Error(t, <-failed)
		}
	})
}
