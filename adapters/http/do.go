package curfewhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

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
// client.Do: a *url.Error, of whose URL no more than scheme and host is left. In any
// case r's body is closed.
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
			bare := *u
			bare.URL = origin(u.URL)
			err = &bare
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

// origin returns what of an address is no secret.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "..."
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

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
