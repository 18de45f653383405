package curfewhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/curfew-go/curfew/budget"
)

// Do sends r with client under limit, which holds for the whole call: redirects, all
// attempts, and reading the response's body. It is for calls that must state a
// limit. ctx takes the place of r's context. A nil client is one with a zero
// Transport; a nil ctx or r panics.
//
// The limit is released when the body was read to its end or closed, which the caller
// must do as after client.Do; a body that may be written to, after 101, is released at
// once. The error is that of budget.Enter when there is no time to begin, else that of
// client.Do: a *url.Error, of whose URL no more than scheme and host is left, nor of
// addresses in texts behind it. In any case r's body is closed.
func Do(ctx context.Context, limit budget.Limit, client *http.Client, r *http.Request) (*http.Response, error) {
	if ctx == nil {
		panic("curfewhttp: Do: nil context")
	}
	if r == nil {
		panic("curfewhttp: Do: nil request")
	}
	if client == nil {
		client = plain
	}
	ctx, cancel, err := budget.Enter(ctx, limit)
	if err != nil {
		cancel()
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	resp, err := client.Do(r.WithContext(ctx))
	if err != nil {
		cancel()
		var u *url.Error
		if errors.As(err, &u) {
			err = &url.Error{Op: u.Op, URL: origin(u.URL), Err: bareCause(u.Err, r.URL, u.URL)}
		}
		return resp, err
	}
	if resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		cancel()
		return resp, nil
	}
	resp.Body = &limitedBody{resp.Body, cancel}
	return resp, nil
}

// plain is the client of who has none.
var plain = &http.Client{Transport: &Transport{}}

// bareCause returns what is behind the error of a client, for a request to asked that
// had come to address.
func bareCause(err error, asked *url.URL, address string) error {
	// net/http writes the header as it is (Go 1.26.8, Client.do), and nothing is behind it.
	if strings.HasPrefix(err.Error(), "failed to parse Location header") {
		return errLocation
	}
	last, _ := url.Parse(address)
	return bare(bare(err, asked), last)
}

var errLocation = errors.New("curfewhttp: the Location of a redirect is no address")

// A limitedBody releases its limit at the end.
type limitedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel()
	}
	return n, err
}

func (b *limitedBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}
