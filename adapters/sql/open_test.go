package curfewsql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"syscall"
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

func TestAnErrorOfConnectTellsNeitherUserNorHost(t *testing.T) {
	secret := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 5432}, Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("user=app database=shop: %w", secret), "curfewsql: no connection: connection refused"},
		{fmt.Errorf("user=app: %w", &net.DNSError{Err: "no such host", Name: "db.example"}), "curfewsql: no connection: the host's address was not found"},
		{fmt.Errorf("user=app: %w", stateError("28P01")), "curfewsql: no connection: the server answered 28P01"},
		{errors.New("user=app"), "curfewsql: no connection: see the driver's error behind this one"},
	} {
		db := curfewsql.Wrap(connects(func(context.Context) (driver.Conn, error) { return nil, c.err }))
		defer db.Close()
		err := db.PingContext(t.Context())
		assert.EqualError(t, err, c.want)
		assert.ErrorIs(t, err, c.err)
	}
}

// stateError is an error with a SQLSTATE.
type stateError string

func (e stateError) Error() string    { return "user=app" }
func (e stateError) SQLState() string { return string(e) }
