package curfewhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
)

// maxAhead is the largest body that is read before the handler runs. net/http
// notices that an HTTP/1.1 client has left only once the request's body has been
// read to its end, so a handler that ignores a small one would never hear of it.
const maxAhead = 4 << 10

// A requestBody is where a request's body comes from.
type requestBody struct {
	io.ReadCloser             // net/http's; nil for a request without one
	left          atomic.Bool // there is more of it to read
	lost          atomic.Bool // h was refused the rest
}

// serverBody is what the handler reads.
type serverBody guard

// Read says what ended the request's context, where that ended the reading.
func (b *serverBody) Read(p []byte) (int, error) {
	n, err := b.body.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	switch {
	case err == io.EOF:
		b.fence.Lock() // lest a read deadline be set when nothing is left
		b.body.left.Store(false)
		b.fence.Unlock()
	case (*guard)(b).expired() && errors.Is(err, os.ErrDeadlineExceeded):
		b.body.lost.Store(true)
		err = context.Cause(&b.node)
	}
	return n, err
}

func (b *serverBody) Close() error { return b.body.ReadCloser.Close() }

// take makes g's body that of the request that h sees. It reads a small one ahead.
func (g *guard) takeBody(inner *http.Request) {
	r := g.r
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	g.body.ReadCloser = r.Body
	g.body.left.Store(true)
	inner.Body = (*serverBody)(g)
	if g.h.config.Mode != Enforce { // nobody would end the wait for one that does not come
		return
	}
	if r.ProtoMajor >= 2 || r.ContentLength < 0 || r.ContentLength > maxAhead || r.Header.Get("Expect") != "" {
		return
	}
	ahead, err := io.ReadAll(io.LimitReader(inner.Body, maxAhead+1))
	inner.Body = &readAhead{Reader: *bytes.NewReader(ahead), err: err, closer: r.Body}
}

// readAhead is a body that has been read, with the error that came behind it.
type readAhead struct {
	bytes.Reader
	err    error
	closer io.Closer
}

func (a *readAhead) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if err == io.EOF && a.err != nil {
		err = a.err
	}
	return n, err
}

// WriteTo would lose the error.
func (a *readAhead) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{a})
}

func (a *readAhead) Close() error { return a.closer.Close() }
