package curfewhttp

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// What is read of a body that nobody wants, to keep its connection.
const (
	drainBytes = 64 << 10
	drainTime  = 20 * time.Millisecond
)

// An outBody is a response's body. It keeps the context of its attempt alive until
// its end, and says what ended it.
type outBody struct {
	rc      io.ReadCloser
	a       *outAttempt
	release func()
	left    int64 // of Content-Length, where its end is an end; else negative
	drains  bool  // an HTTP/1 connection is kept only when its body was read

	once  sync.Once
	mu    sync.Mutex
	ended bool // under mu: no need to drain
}

func newOutBody(resp *http.Response, a *outAttempt, release func()) *outBody {
	b := &outBody{rc: resp.Body, a: a, release: release, left: -1, drains: resp.ProtoMajor == 1 && !resp.Close}
	if resp.ProtoMajor == 2 {
		b.left = resp.ContentLength
	}
	return b
}

func (b *outBody) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if b.left >= 0 {
		// A server that ends a stream from outside its handler can only reset it.
		// When all bytes of a known length are here, that is an end like any other.
		b.left = max(b.left-int64(n), 0)
		if err != nil && b.left == 0 {
			err = io.EOF
		}
	}
	if err == nil {
		return n, nil
	}
	if err == io.EOF {
		b.end(nil)
		return n, err
	}
	err = bare(b.a.why(err), nil)
	b.end(err)
	return n, err
}

// Close closes the body, and gives the connection a chance to be kept.
func (b *outBody) Close() error {
	b.mu.Lock()
	drain := b.drains && !b.ended
	b.mu.Unlock()
	if drain {
		b.drain()
	}
	err := b.rc.Close()
	b.end(nil)
	return err
}

// drain reads a bounded rest, for a bounded time: a stream may never end.
func (b *outBody) drain() {
	late := time.AfterFunc(drainTime, func() { b.rc.Close() })
	defer late.Stop()
	io.CopyN(io.Discard, b.rc, drainBytes+1) // whatever comes of it, Close is next
}

func (b *outBody) end(err error) {
	b.once.Do(func() {
		b.mu.Lock()
		b.ended = true
		b.mu.Unlock()
		b.a.end(err)
		b.release()
	})
}

// discard disposes of a response that nobody is going to read.
func discard(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
}
