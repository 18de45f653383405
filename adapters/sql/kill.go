package curfewsql

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/curfew-go/curfew/adapters/sql/dialect"
)

// The fuse lets this many kills through at once, and then so many a second. A crowd
// of callers that leaves together is let through; what keeps killing
// would be one more load on a server in trouble, and the socket ends it as well.
const (
	fuseBurst  = 500
	fusePerSec = 100
)

// A killer ends statements from one connection outside of the pool, so that a full
// pool does not keep it from doing so. It makes that connection when it first needs it.
type killer struct {
	connector driver.Connector
	dialect   dialect.Killer
	judge     func(error) dialect.Verdict
	log       *slog.Logger

	life   context.Context // ends when the killer is closed
	end    context.CancelFunc
	turn   chan struct{} // holds one value, for whoever uses conn and closed
	conn   driver.Conn
	closed bool

	mu     sync.Mutex
	tokens float64   // guarded by mu
	filled time.Time // guarded by mu
	warned time.Time // guarded by mu: when a blown fuse was logged
	behind []late    // guarded by mu: the first is being sent; trail runs while there are any
}

func newKiller(c driver.Connector, d dialect.Killer, judge func(error) dialect.Verdict, log *slog.Logger) *killer {
	k := &killer{connector: c, dialect: d, judge: judge, log: log, turn: make(chan struct{}, 1), tokens: fuseBurst, filled: time.Now()}
	k.life, k.end = context.WithCancel(context.Background())
	k.turn <- struct{}{}
	return k
}

var errClosed = errors.New("curfewsql: closed")

// use runs f on the reserved connection, and after an error once more on a new one: the server
// may have dropped a connection that idled for hours.
func (k *killer) use(ctx context.Context, f func(driver.Conn) error) error {
	err := k.once(ctx, f)
	if err != nil && ctx.Err() == nil {
		err = k.once(ctx, f)
	}
	return err
}

// once runs f on the reserved connection. After an error the connection is made anew by the next.
func (k *killer) once(ctx context.Context, f func(driver.Conn) error) error {
	select {
	case <-k.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { k.turn <- struct{}{} }()
	if k.closed {
		return errClosed
	}
	if k.conn == nil {
		conn, err := k.connector.Connect(ctx)
		if err != nil {
			return err
		}
		k.conn = conn
	}
	err := f(k.conn)
	if err != nil {
		_ = k.conn.Close()
		k.conn = nil
	}
	return err
}

// A victim is a connection whose statements are killed by its id, which has been proven.
type victim struct {
	killer *killer
	id     int64
}

func (v *victim) end(ctx context.Context, moot func() bool) (sent bool, err error) {
	return v.killer.kill(ctx, v.id, moot)
}

func (v *victim) endBehind() { v.killer.killBehind(v.id) }

// kill is end of a victim.
func (k *killer) kill(ctx context.Context, id int64, moot func() bool) (sent bool, err error) {
	if !k.allow(time.Now()) {
		return false, errors.New("curfewsql: too many kills")
	}
	query := k.dialect.Kill(id)
	err = k.use(ctx, func(conn driver.Conn) error {
		if moot() {
			return nil
		}
		sent = true
		return execText(ctx, conn, query)
	})
	return sent, err
}

// linger bounds what is done for a call that nobody waits for any more.
const linger = 10 * time.Second

// A late kill is one for which a call had no time.
type late struct {
	id int64
	by time.Time
}

// killBehind ends what the connection id, whose socket has ended, may still run in the server. The
// connection is not used again, and its id not given again, so that nothing else can be hit.
// Such kills have a connection of their own while there are any: on the reserved one they
// would keep a server that hangs from being asked for anything else.
func (k *killer) killBehind(id int64) {
	if !k.allow(time.Now()) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.behind = append(k.behind, late{id, time.Now().Add(linger)})
	if len(k.behind) == 1 {
		go k.trail()
	}
}

// trail sends late kills, one after the other, until there are none.
func (k *killer) trail() {
	var conn driver.Conn
	k.mu.Lock()
	for len(k.behind) > 0 && k.life.Err() == nil {
		next := k.behind[0] // which stays meanwhile, so that nobody starts another trail
		k.mu.Unlock()
		conn = k.killLate(conn, next)
		k.mu.Lock()
		k.behind = k.behind[1:]
	}
	k.behind = nil
	k.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// killLate returns the connection for the next one, nil when that needs a new one.
func (k *killer) killLate(conn driver.Conn, l late) driver.Conn {
	ctx, cancel := context.WithDeadline(k.life, l.by)
	defer cancel()
	if conn == nil {
		var err error
		if conn, err = k.connector.Connect(ctx); err != nil {
			return nil
		}
	}
	err := execText(ctx, conn, k.dialect.Kill(l.id))
	if err != nil && k.judge(err).Code == "" { // else the server answered: mostly that there is no such connection
		_ = conn.Close()
		return nil
	}
	return conn
}

func (k *killer) allow(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens = min(k.tokens+now.Sub(k.filled).Seconds()*fusePerSec, fuseBurst)
	k.filled = now
	if k.tokens < 1 {
		if now.Sub(k.warned) > time.Minute {
			k.warned = now
			k.log.Warn("curfewsql: more statements to kill than are killed: connections are cut instead")
		}
		return false
	}
	k.tokens--
	return true
}

// identify returns the id by which conn can be killed, and false when the server
// does not confirm it from the other side.
func (k *killer) identify(ctx context.Context, conn driver.Conn) (int64, bool) {
	token := "curfew-" + rand.Text()
	row, err := queryRow(ctx, conn, k.dialect.Identify(token))
	if err != nil || len(row) != 2 {
		return 0, false
	}
	id, err := strconv.ParseInt(text(row[0]), 10, 64)
	if err != nil || text(row[1]) != "1" {
		return 0, false
	}
	proven := false
	err = k.use(ctx, func(other driver.Conn) error {
		row, err := queryRow(ctx, other, k.dialect.Prove(token))
		proven = err == nil && text(row[0]) == text(id)
		return err
	})
	if execText(ctx, conn, k.dialect.Release(token)) != nil {
		return 0, false
	}
	return id, proven && err == nil
}

// close ends the reserved connection, waiting for whoever uses it for a call that is under way.
func (k *killer) close() {
	k.end()
	<-k.turn
	k.closed = true
	if k.conn != nil {
		_ = k.conn.Close()
		k.conn = nil
	}
	k.turn <- struct{}{}
}
