package curfewpgx

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
)

type loginKey struct{}

// A login is one making of a connection. Where a session is kept for its identity, the driver is
// told to try a place of ours first, where it gets that session, and then what it was configured
// for, and ours once more:
//
//	keptHost, for as long as patience ──▶ the server ──▶ keptHost
//
// While the server has not said a word the session still goes first: as soon as it is ready the
// attempt at the server fails, and the driver comes to the last place.
type login struct {
	keeper *keeper // nil where no session may take the place
	who    identity

	config *pgx.ConnConfig
	secure *tls.Config // that the connection may have, nil for none
	born   time.Time   // of the session

	kept   *kept                 // nil for none, and then nothing of config is changed
	first  pgconn.FallbackConfig // of config, as it was
	others []*pgconn.FallbackConfig

	tried  bool
	handed bool
}

// keptHost is the host of the place of ours. It looks like the folder of a socket.
const keptHost = "/curfewpgx-kept"

var (
	errNotKept = errors.New("curfewpgx: no session is kept")
	errKept    = errors.New("curfewpgx: a session that was kept goes first")
)

// TraceConnectStart has the connection look for a session that is kept. The driver makes the
// ConnConfig in data for one connection alone, and it is not the one that was configured.
func (t *tracer) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	l := &login{config: data.ConnConfig, born: time.Now()}
	if t.keeper != nil && data.ConnConfig != t.config && waysOf(data.ConnConfig) == t.ways {
		var ok bool
		if l.who, l.secure, ok = identityOf(&data.ConnConfig.Config); ok {
			l.keeper = t.keeper
			l.claim()
		}
	}
	return context.WithValue(ctx, loginKey{}, l)
}

// waysOf returns what tells the functions by which cfg reaches the server from others. A pool's BeforeConnect
// may put another one in the place of ours, which knows nothing of the place of ours: it would be asked for it
// without TLS, and for cancels that strike whoever has the session by then.
func waysOf(cfg *pgx.ConnConfig) [2]uintptr {
	return [2]uintptr{reflect.ValueOf(cfg.DialFunc).Pointer(), reflect.ValueOf(cfg.AfterNetConnect).Pointer()}
}

func (l *login) claim() {
	l.kept = l.keeper.claim(l.who)
	if l.kept == nil {
		return
	}
	cfg := l.config
	l.first = pgconn.FallbackConfig{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}
	l.others = cfg.Fallbacks
	all := append([]*pgconn.FallbackConfig{&l.first}, cfg.Fallbacks...)
	cfg.Fallbacks = append(all, &pgconn.FallbackConfig{Host: keptHost, Port: cfg.Port})
	cfg.Host, cfg.TLSConfig = keptHost, nil
}

// TraceConnectEnd closes the session when a login has taken its place, and one of somebody else where there
// was none.
func (t *tracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	l, ok := ctx.Value(loginKey{}).(*login)
	if !ok || l.keeper == nil {
		return
	}
	l.restore()
	switch {
	case l.handed:
	case l.kept == nil:
		if data.Err == nil {
			l.keeper.makeRoom(l.who)
		}
	case data.Err != nil:
		l.keeper.putBack(l.kept)
	default:
		l.kept.drop()
	}
}

// restore leaves the configuration as it was. The driver has made its list of places when it dials
// for the first of them, and who looks from then on sees what was configured.
func (l *login) restore() {
	if l.kept != nil && l.config.Host == keptHost {
		l.config.Host, l.config.TLSConfig, l.config.Fallbacks = l.first.Host, l.first.TLSConfig, l.others
	}
}

// dial returns the connection to addr, or to the session in its place.
func (l *login) dial(ctx context.Context, network, addr string, dial pgconn.DialFunc) (net.Conn, error) {
	if l.kept == nil || l.handed {
		return dial(ctx, network, addr)
	}
	l.restore()
	if net, ours := pgconn.NetworkAddress(keptHost, l.first.Port); network == net && addr == ours {
		if !l.tried {
			l.tried = true
			l.kept.await(ctx, l.keeper.patience)
		}
		conn := l.keeper.take(l.kept)
		if conn == nil {
			return nil, errNotKept
		}
		l.handed = true
		if l.kept.secure != nil {
			l.config.DialFunc = l.dialTLS(l.config.DialFunc)
		}
		return conn, nil
	}
	if l.kept.isReady() {
		return nil, errKept
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	a := &attempt{Conn: conn, settled: make(chan struct{})}
	go a.giveWay(l.kept)
	return a, nil
}

// keep returns where what is left of conn goes when it is given up, and nil for nowhere.
func (l *login) keep(conn net.Conn) func(*stream.Session) {
	if l.keeper == nil {
		return nil
	}
	born, secure := l.born, l.secure
	if l.handed {
		born, secure = l.kept.born, l.kept.secure
	} else if _, ok := conn.(*tls.Conn); !ok {
		secure = nil
	} else if secure == nil {
		return nil // and it is not known which of several it has
	}
	return func(s *stream.Session) { l.keeper.keep(&kept{who: l.who, secure: secure, born: born, session: s}) }
}

// An attempt is a connection to a server that has not said a word while a session was kept.
type attempt struct {
	net.Conn
	once    sync.Once
	settled chan struct{} // closed with the server's first word, and by Close

	mu    sync.Mutex
	heard bool // guarded by mu: the server spoke first
	late  bool // guarded by mu: the session was ready first
}

// giveWay fails the attempt if s is ready before the server's first word.
func (a *attempt) giveWay(s *kept) {
	select {
	case <-a.settled:
		return
	case <-s.over:
		return
	case <-s.ready:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.heard {
		a.late = true
		_ = a.Conn.Close()
	}
}

func (a *attempt) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	select {
	case <-a.settled:
		return n, err
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.late {
		return 0, errKept
	}
	if n > 0 {
		a.heard = true
		a.once.Do(func() { close(a.settled) })
	}
	return n, err
}

func (a *attempt) Close() error {
	a.once.Do(func() { close(a.settled) })
	return a.Conn.Close()
}
