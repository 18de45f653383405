package curfewpgx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/curfew-go/curfew/budget"
)

// A connectError says why a connection was not to be had, in words of ours. The driver's name the
// user, the database, the host and its address, and those of the server the first two.
type connectError struct {
	why string // empty where it is not known
	err error
}

func (e *connectError) Error() string {
	if e.why == "" {
		return "curfewpgx: no connection"
	}
	return "curfewpgx: no connection: " + e.why
}

func (e *connectError) Unwrap() error { return e.err }

// connectCause is Error for err, with which the driver could not connect under ctx. A connect_timeout
// of the configuration is a limit of its own, and no end of ctx.
func connectCause(ctx context.Context, err error) *budget.Cause {
	at, bounded := ctx.Deadline()
	why, kind := whyNot(err)
	ended := timedOut(err) || errors.Is(err, context.Canceled)
	e := &connectError{why, err}
	var c *budget.Cause
	switch {
	case ctx.Err() != nil && ended:
		c = endOf(ctx, e)
	case bounded && ended && !time.Now().Before(at):
		c = whose(ctx)
		c.Kind, c.Err = budget.DeadlineExceeded, e
	default:
		place := whose(ctx)
		c = &budget.Cause{Kind: kind, Scope: place.Scope, Task: place.Task, Err: e}
	}
	if c.Phase == "" {
		c.Phase = "connect"
	}
	return c
}

func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}

// refusals are the answers of a server to who logs in.
//
// Source: PostgreSQL documentation, appendix A.
var refusals = map[string]struct {
	why  string
	kind budget.Kind
}{
	"28P01": {"the password was refused (28P01)", budget.Failed},
	"28000": {"the user, or where it comes from, was refused (28000)", budget.Failed},
	"3D000": {"there is no such database (3D000)", budget.Failed},
	"42501": {"the user may not use the database (42501)", budget.Failed},
	"53300": {"the server has no connection left (53300)", budget.Overloaded},
	"57P03": {"the server is starting up or shutting down (57P03)", budget.Shutdown},
}

// whyNot tells the reason of a failed connection and the kind of it, where that is not the end of
// ctx. Of several hosts, or of attempts with TLS and without, the one that comes first here counts:
// who has spoken with a server knows more than who has not reached one.
func whyNot(err error) (why string, kind budget.Kind) {
	var (
		pg        *pgconn.PgError
		parse     *pgconn.ParseConfigError
		untrusted *tls.CertificateVerificationError
		unknown   x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		misnamed  x509.HostnameError
		alert     tls.AlertError
		record    tls.RecordHeaderError
		lookup    *net.DNSError
		errno     syscall.Errno
	)
	switch {
	case errors.As(err, &pg):
		if known, ok := refusals[pg.Code]; ok {
			return known.why, known.kind
		}
		return "the server answered " + pg.Code, budget.Failed
	case errors.As(err, &parse):
		return "the connection string is not one", budget.Failed
	case errors.As(err, &untrusted), errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &misnamed):
		return "the server's certificate is not trusted", budget.Failed
	case errors.As(err, &alert):
		return "the server refused the TLS handshake", budget.Failed
	case errors.As(err, &record), says(err, "server refused TLS connection"):
		return "the server has no TLS", budget.Failed
	case timedOut(err), budget.KindOf(err) == budget.DependencyTimeout:
		return "no answer in time", budget.DependencyTimeout
	case errors.Is(err, context.Canceled):
		return "it was cancelled", budget.Failed
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "there is no such host", budget.Failed
	case errors.As(err, &lookup):
		return "the name of the host was not to be looked up", budget.Failed
	case errors.As(err, &errno):
		return errno.Error(), budget.Failed // a name of the system's, such as "connection refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection", budget.Failed
	}
	return "", budget.Failed
}

// says reports whether an error in err's tree has text, for what the driver gives no name.
func says(err error, text string) bool {
	switch wrapped := err.(type) {
	case nil:
		return false
	case interface{ Unwrap() error }:
		return err.Error() == text || says(wrapped.Unwrap(), text)
	case interface{ Unwrap() []error }:
		for _, one := range wrapped.Unwrap() {
			if says(one, text) {
				return true
			}
		}
	}
	return err.Error() == text
}
