package curfewpgx_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewpgx "github.com/curfew-go/curfew/adapters/pgx"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/servers"
)

// encrypt has server speak TLS with a certificate that it signed itself, and returns
// how to meet it. The server writes both files, so that they are its own.
func encrypt(t *testing.T, server *servers.Server) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "curfew"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	conn := bare(t, config(t, server, server.Addr(), pgx.QueryExecModeSimpleProtocol))
	for file, block := range map[string]*pem.Block{
		"server.crt": {Type: "CERTIFICATE", Bytes: der}, "server.key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		_, err := conn.Exec(t.Context(), "create temp table file (line text)")
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "insert into file select string_to_table($1, e'\n')", string(pem.EncodeToMemory(block)))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "copy file to program 'umask 077; cat > "+file+"'")
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "drop table file")
		require.NoError(t, err)
	}
	_, err = conn.Exec(t.Context(), "alter system set ssl = on")
	require.NoError(t, err)
	server.Restart()
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

func TestOverTLSAllIsAsWithoutIt(t *testing.T) {
	server := servers.Start(t, servers.PostgreSQL, "jit=off")
	secure := encrypt(t, server)
	through := func(addr string, mode pgx.QueryExecMode) *pgx.ConnConfig {
		cfg := config(t, server, addr, mode)
		cfg.TLSConfig = secure
		return cfg
	}
	watcher := bare(t, through(server.Addr(), pgx.QueryExecModeExec))
	_, err := watcher.Exec(t.Context(), "create table t (n int)")
	require.NoError(t, err)

	t.Run("each", func(t *testing.T) {
		eachModeAtOnce(t, func(t *testing.T, mode pgx.QueryExecMode) {
			conn := connect(t, through(server.Addr(), mode), curfewpgx.Slush(roomy))
			pid := conn.PgConn().PID()
			var encrypted bool
			require.NoError(t, conn.QueryRow(within(t, time.Minute), "select ssl from pg_stat_ssl where pid = $1", int32(pid)).Scan(&encrypted))
			require.True(t, encrypted)
			for _, w := range walks {
				require.NoError(t, w.walk(within(t, time.Minute), conn), w.name)
			}
			err := run(within(t, time.Second), conn, runaways["sleep"])
			assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
			assert.Equal(t, "57014", stateOf(err))

			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			err = run(ctx, conn, runaways["sleep"])
			assert.Equal(t, budget.Cancelled, budget.KindOf(err), "%v", err)
			require.NoError(t, run(t.Context(), conn, "select 1, $1::int"))
			assert.Equal(t, pid, conn.PgConn().PID(), "the cancel was seen to end")
		})
	})

	pool := newPool(t, through(server.Addr(), pgx.QueryExecModeCacheStatement), 1)
	t.Run("frozen", func(t *testing.T) {
		require.NoError(t, run(t.Context(), pool, "select 1, $1::int"))
		server.Freeze()
		began := time.Now()
		err := run(within(t, 300*time.Millisecond), pool, "select 1, $1::int")
		took := time.Since(began)
		server.Thaw()
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err), "%v", err)
		assertTook(t, took, 240*time.Millisecond, 360*time.Millisecond, "until the deadline")
		require.NoError(t, run(within(t, 10*time.Second), pool, "select 1, $1::int"))
	})
	t.Run("frozen in COMMIT", func(t *testing.T) {
		err := curfewpgx.WithTx(t.Context(), pool, budget.Within(300*time.Millisecond), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into t values (-1)")
			server.Freeze()
			return err
		})
		server.Thaw()
		var e *curfewpgx.CommitError
		require.True(t, errors.As(err, &e), "%v", err)
		assert.Equal(t, curfewpgx.Unknown, e.Outcome, "%v", err)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		was, err := curfewpgx.Resolve(within(t, 10*time.Second), pool, err)
		require.NoError(t, err)
		var rows int
		require.NoError(t, watcher.QueryRow(t.Context(), "select count(*) from t where n = -1").Scan(&rows))
		assert.Equal(t, was == curfewpgx.CommittedLate, rows == 1)
	})
}
