package curfewpgx

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// An identity stands for all of a configuration that decides to which servers a connection leads,
// by which means, and who it is there.
type identity [sha256.Size]byte

// identityOf returns that of cfg and the TLS that it has, which is nil for none and for several. It
// returns false where a session may not take the place of a login: where each login
// has to prove something anew, or is who a function says.
func identityOf(cfg *pgconn.Config) (who identity, secure *tls.Config, ok bool) {
	if cfg.ValidateConnect != nil || cfg.RequireAuth != "" || cfg.OAuthTokenProvider != nil ||
		cfg.ChannelBinding == "require" || cfg.SSLCertMode == "require" {
		return who, nil, false
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q", []string{cfg.User, cfg.Password, cfg.Database, cfg.MinProtocolVersion, cfg.MaxProtocolVersion,
		cfg.KerberosSrvName, cfg.KerberosSpn, cfg.ChannelBinding, cfg.SSLNegotiation, cfg.SSLCertMode})
	for _, name := range slices.Sorted(maps.Keys(cfg.RuntimeParams)) {
		fmt.Fprintf(h, " %q=%q", name, cfg.RuntimeParams[name])
	}
	all := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	several := false
	for _, one := range all {
		fmt.Fprintf(h, " %q:%d", one.Host, one.Port)
		c := one.TLSConfig
		if c == nil {
			continue
		}
		if c.GetClientCertificate != nil {
			return who, nil, false
		}
		fmt.Fprintf(h, " tls %q %t %p %t %t", c.ServerName, c.InsecureSkipVerify, c.RootCAs, c.VerifyPeerCertificate != nil, c.VerifyConnection != nil)
		for _, cert := range c.Certificates {
			fmt.Fprintf(h, " %x", cert.Certificate)
		}
		several = several || secure != nil && secure.ServerName != c.ServerName
		secure = c
	}
	if several {
		secure = nil
	}
	return identity(h.Sum(nil)), secure, true
}

// dialTLS has the cancel requests of a connection over TLS made over TLS. The driver does so only
// where it has made the TLS of the connection itself. For other connections, whose configuration
// is a copy of this one's, it is dial.
func (l *login) dialTLS(dial pgconn.DialFunc) pgconn.DialFunc {
	secure, direct := l.kept.secure, l.config.SSLNegotiation == "direct"
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		another, ok := ctx.Value(loginKey{}).(*login)
		if ok && another != l || ctx.Value(tlsKey{}) != nil {
			return dial(ctx, network, addr)
		}
		ctx = context.WithValue(ctx, tlsKey{}, true) // for dial, which may be one of these
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		if !direct {
			err = requestTLS(conn)
		}
		over := tls.Client(conn, secure)
		if err == nil {
			err = over.HandshakeContext(ctx)
		}
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		return over, nil
	}
}

type tlsKey struct{}

var errNoTLS = errors.New("curfewpgx: the server refused TLS")

// requestTLS asks the server for TLS: the SSLRequest of the protocol's chapter "Message Formats".
func requestTLS(conn net.Conn) error {
	if err := binary.Write(conn, binary.BigEndian, []int32{8, 80877103}); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	if answer[0] != 'S' {
		return errNoTLS
	}
	return nil
}
