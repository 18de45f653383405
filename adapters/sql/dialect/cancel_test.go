package dialect_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// These have the methods of pgx's stdlib.Conn, pgx.Conn and pgconn.PgConn.
type (
	stdConn struct {
		wire
		conn *pgxConn
	}
	wire    interface{ driver.Conn }
	pgxConn struct{ pg *pgConn }
	pgConn  struct{ err error }
)

func (c stdConn) Conn() *pgxConn                      { return c.conn }
func (c *pgxConn) PgConn() *pgConn                    { return c.pg }
func (c *pgConn) PID() uint32                         { return 1<<32 - 1 }
func (c *pgConn) CancelRequest(context.Context) error { return c.err }

// These have methods of the same names that are something else.
type (
	takesOne   struct{ wire }
	noPointer  struct{ wire }
	otherThing struct{ wire }
	thing      struct{}
)

func (takesOne) Conn(int) *pgxConn { return &pgxConn{&pgConn{}} }
func (noPointer) Conn() int        { return 1 }
func (otherThing) Conn() *thing    { return &thing{} }
func (*thing) PgConn() *thing      { return &thing{} }

func TestPostgreSQLCancelsThroughADriverThatCan(t *testing.T) {
	d := dialect.PostgreSQL().(dialect.Canceler)
	for _, conn := range []driver.Conn{nil, takesOne{}, noPointer{}, otherThing{}, stdConn{}, stdConn{conn: &pgxConn{}}} {
		assert.Nil(t, d.Cancel(conn), "%T", conn)
		id, ask := d.Session(conn)
		assert.Zero(t, id)
		assert.Empty(t, ask)
	}
	failed := errors.New("no route")
	for _, want := range []error{nil, failed} {
		conn := stdConn{conn: &pgxConn{&pgConn{want}}}
		assert.ErrorIs(t, d.Cancel(conn)(t.Context()), want)
		assert.Nil(t, dialect.CurfewPGX().(dialect.Canceler).Cancel(conn), "which does it itself")
	}
	conn := stdConn{conn: &pgxConn{&pgConn{}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, d.Cancel(conn)(ctx), context.Canceled, "whether it was done is not known")
	id, ask := d.Session(conn)
	require.Equal(t, int64(1<<32-1), id)
	assert.Equal(t, "select pg_backend_pid()", ask)
	assert.Equal(t, "select pg_cancel_backend(4294967295)", d.Signal(id))
}
