package curfewpgx_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
)

// mute is the address of a server that takes connections and says nothing, or closes them at once.
func mute(t *testing.T, closes bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if closes {
				conn.Close()
			} else {
				defer conn.Close()
			}
		}
	}()
	return l.Addr().String()
}

// secrets are what no text may hold, but for ports and addresses.
const secrets = "hidden|secret|private|127.0.0.1|::1"

// A failure is a way of not getting a connection.
type failure struct {
	name string
	addr string                // of the server's where it is empty
	with func(*pgx.ConnConfig) // is told the configuration before it is used
	ctx  func() context.Context
	kind budget.Kind
	text string // is in it
	code string // of the server's answer, empty for none
}

func failures(t *testing.T, plain, encrypted *servers.Server) []failure {
	admin := bare(t, config(t, plain, plain.Addr(), pgx.QueryExecModeExec))
	for _, text := range []string{"create role hidden login password 'secret'", "create role hidden_full login password 'secret' connection limit 0",
		"create database private", "create database private_closed connection limit 0"} {
		_, err := admin.Exec(t.Context(), text)
		require.NoError(t, err)
	}
	secure := encrypt(t, encrypted)
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, refusing.Close())
	ended := func() context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx
	}
	return []failure{
		{name: "refused", addr: refusing.Addr().String(), kind: budget.Failed, text: "connection refused"},
		{name: "wrong password", with: func(c *pgx.ConnConfig) { c.Password = "secret, but wrong" }, kind: budget.Failed, text: "the password was refused (28P01)", code: "28P01"},
		{name: "unknown user", with: func(c *pgx.ConnConfig) { c.User = "hidden_nobody" }, kind: budget.Failed, text: "28P01", code: "28P01"},
		{name: "unknown database", with: func(c *pgx.ConnConfig) { c.Database = "private_nothing" }, kind: budget.Failed, text: "there is no such database (3D000)", code: "3D000"},
		{name: "no connection left", with: func(c *pgx.ConnConfig) { c.User = "hidden_full" }, kind: budget.Overloaded, text: "no connection left (53300)", code: "53300"},
		{name: "a parameter that the server refuses", with: func(c *pgx.ConnConfig) { c.RuntimeParams["search_path"] = "\"secret" }, kind: budget.Failed, text: "the server answered 22023", code: "22023"},
		{name: "TLS refused", with: func(c *pgx.ConnConfig) { c.TLSConfig = &tls.Config{ServerName: "hidden"} }, kind: budget.Failed, text: "the server has no TLS"},
		{name: "a certificate that nobody knows", addr: encrypted.Addr(), with: func(c *pgx.ConnConfig) { c.TLSConfig = &tls.Config{ServerName: "hidden"} }, kind: budget.Failed, text: "certificate is not trusted"},
		{name: "a certificate for another name", addr: encrypted.Addr(), with: func(c *pgx.ConnConfig) {
			c.TLSConfig = secure.Clone()
			c.TLSConfig.ServerName = "hidden"
		}, kind: budget.Failed, text: "certificate is not trusted"},
		{name: "connect_timeout", addr: mute(t, false), with: func(c *pgx.ConnConfig) { c.ConnectTimeout = 20 * time.Millisecond }, kind: budget.DependencyTimeout, text: "no answer in time"},
		{name: "deadline", addr: mute(t, false), ctx: func() context.Context { return within(t, 20*time.Millisecond) }, kind: budget.DeadlineExceeded},
		{name: "cancelled", ctx: ended, kind: budget.Cancelled},
		{name: "closed at once", addr: mute(t, true), kind: budget.Failed},
		{name: "no such host", with: func(c *pgx.ConnConfig) {
			c.Host = "hidden.invalid"
			c.LookupFunc = func(_ context.Context, host string) ([]string, error) {
				return nil, &net.DNSError{Err: "no such host", Name: host, Server: "127.0.0.1:53", IsNotFound: true}
			}
		}, kind: budget.Failed, text: "there is no such host"},
		{name: "no answer about the host", with: func(c *pgx.ConnConfig) {
			c.Host = "hidden.invalid"
			c.LookupFunc = func(_ context.Context, host string) ([]string, error) {
				return nil, &net.DNSError{Err: "i/o timeout", Name: host, Server: "127.0.0.1:53", IsTimeout: true}
			}
		}, kind: budget.DependencyTimeout, text: "no answer in time"},
		{name: "a hook of the user's", with: func(c *pgx.ConnConfig) {
			c.AfterConnect = func(context.Context, *pgconn.PgConn) error {
				return errors.New("postgres://hidden:secret@127.0.0.1/private")
			}
		}, kind: budget.Failed, text: "curfewpgx: no connection"},
	}
}

// ways are those by which a program comes to a connection. Each returns what curfewpgx makes of it.
var ways = map[string]func(ctx context.Context, t *testing.T, cfg *pgx.ConnConfig) error{
	"pgx.Conn": func(ctx context.Context, _ *testing.T, cfg *pgx.ConnConfig) error {
		_, err := pgx.ConnectConfig(ctx, cfg)
		return curfewpgx.Error(ctx, err)
	},
	"pgxpool": func(ctx context.Context, t *testing.T, cfg *pgx.ConnConfig) error {
		return run(ctx, barePool(t, cfg, 1), "select 1, $1::int")
	},
	"WithTx": func(ctx context.Context, t *testing.T, cfg *pgx.ConnConfig) error {
		return curfewpgx.WithTx(ctx, barePool(t, cfg, 1), budget.Inherited(), func(context.Context, pgx.Tx) error { return nil })
	},
	"database/sql": func(ctx context.Context, _ *testing.T, cfg *pgx.ConnConfig) error {
		db := sql.OpenDB(stdlib.GetConnector(*cfg))
		defer db.Close()
		return curfewpgx.Error(ctx, db.PingContext(ctx))
	},
	"Resolve": func(ctx context.Context, t *testing.T, cfg *pgx.ConnConfig) error {
		was, err := curfewpgx.Resolve(ctx, barePool(t, cfg, 1), &curfewpgx.CommitError{Outcome: curfewpgx.Unknown, XID: 7})
		assert.Equal(t, curfewpgx.Unknown, was)
		return err
	},
}

func TestNoWayOfFailingToConnectTellsWhoOrWhere(t *testing.T) {
	plain, encrypted := servers.Start(t, servers.PostgreSQL), servers.Start(t, servers.PostgreSQL)
	for _, f := range failures(t, plain, encrypted) {
		configured := func(t *testing.T) *pgx.ConnConfig {
			addr := f.addr
			if addr == "" {
				addr = plain.Addr()
			}
			cfg := config(t, plain, addr, pgx.QueryExecModeExec)
			cfg.User, cfg.Password, cfg.Database = "hidden", "secret", "private"
			if f.with != nil {
				f.with(cfg)
			}
			curfewpgx.Configure(cfg)
			return cfg
		}
		for way, connect := range ways {
			t.Run(f.name+"/"+way, func(t *testing.T) {
				cfg := configured(t)
				ctx := within(t, time.Minute)
				if f.ctx != nil {
					ctx = f.ctx()
				}
				err := connect(ctx, t, cfg)
				require.Error(t, err)
				for _, verb := range []string{"%v", "%+v", "%s", "%q"} {
					assert.NotRegexp(t, secrets, fmt.Sprintf(verb, err))
				}
				assert.NotRegexp(t, fmt.Sprintf(`\b%d\b`, cfg.Port), err.Error())
				assert.ErrorContains(t, err, f.text)
				assert.Equal(t, f.code, stateOf(err))
				var cause *budget.Cause
				require.True(t, errors.As(err, &cause), "%T %v", err, err)
				if f.ctx != nil { // where it ended before there was a connection, it depends on the way what is said of it
					assert.ErrorIs(t, err, f.kind.Sentinel())
					return
				}
				assert.Equal(t, f.kind, budget.KindOf(err), "%v", err)
				assert.NotErrorIs(t, err, context.DeadlineExceeded, "which a connect_timeout is not")
				assert.NotContains(t, err.Error(), "limit")
				assert.Equal(t, "connect", cause.Phase)
				var theirs *pgconn.ConnectError
				assert.True(t, errors.As(err, &theirs))
			})
		}
		if f.ctx == nil { // a Listener's is its own
			t.Run(f.name+"/Listen", func(t *testing.T) { listensInVain(t, configured(t), f.text) })
		}
	}
}

func listensInVain(t *testing.T, cfg *pgx.ConnConfig, text string) {
	told := &told{lines: make(chan struct{}, 1)}
	l := curfewpgx.Listen(cfg, curfewpgx.ListenConfig{Channel: "c", Query: "select 1", Log: slog.New(slog.NewTextHandler(told, nil))})
	defer l.Close()
	select {
	case <-told.lines:
	case <-time.After(late):
		t.Fatal("nothing was told")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Cancelled(ctx, "a job")
	require.Error(t, err)
	assert.NotRegexp(t, secrets, fmt.Sprintf("%+v", err))
	assert.NotRegexp(t, secrets, told.String())
	assert.Contains(t, told.String(), text)
}

// told keeps what a logger wrote.
type told struct {
	mu    sync.Mutex
	text  bytes.Buffer // guarded by mu
	lines chan struct{}
}

func (b *told) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() {
		select {
		case b.lines <- struct{}{}:
		default:
		}
	}()
	return b.text.Write(p)
}

func (b *told) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestAConnectionStringThatIsNoneIsNotRepeated(t *testing.T) {
	for _, dsn := range []string{"postgres://hidden:secret@127.0.0.1:port/private", "user=hidden password=secret host=127.0.0.1 port=x",
		"postgres://hidden:sec ret@127.0.0.1/private?pool_max_conns=none"} {
		_, err := pgxpool.New(t.Context(), dsn)
		require.Error(t, err)
		err = curfewpgx.Error(t.Context(), err)
		assert.NotRegexp(t, secrets+"|ret@", fmt.Sprintf("%+v", err))
		var parse *pgconn.ParseConfigError
		assert.True(t, errors.As(err, &parse))
		var cause *budget.Cause
		require.True(t, errors.As(err, &cause))
		assert.Equal(t, "connect", cause.Phase)
	}
}
