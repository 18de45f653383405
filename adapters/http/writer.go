package curfewhttp

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// A writer is a guard as the handler sees it. It has everything that net/http's own
// writers have, and no Unwrap: an http.ResponseController must not go around it.
// What the writer below cannot do answers http.ErrNotSupported.
type writer guard

var (
	_ http.Flusher        = (*writer)(nil)
	_ http.Hijacker       = (*writer)(nil)
	_ http.Pusher         = (*writer)(nil)
	_ io.ReaderFrom       = (*writer)(nil)
	_ io.StringWriter     = (*writer)(nil)
	_ http.ResponseWriter = (*writer)(nil)
)

func (w *writer) guard() *guard { return (*guard)(w) }

// Header returns h's own header map: the answer at the deadline, which another
// goroutine may write while h fills this one in, has that of net/http.
func (w *writer) Header() http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.header == nil {
		if outer := w.w.Header(); len(outer) > 0 {
			w.header = outer.Clone()
		} else {
			w.header = make(http.Header)
		}
	}
	return w.header
}

func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hijacked {
		w.w.WriteHeader(status) // net/http logs the mistake, with the place
		return
	}
	if w.guard().expired() {
		w.lost = w.lost || w.started.Load() && w.status == 0
		return
	}
	w.guard().commit(status)
}

// commit gives net/http the status and the header. The caller holds mu.
func (g *guard) commit(status int) {
	if g.status != 0 {
		g.w.WriteHeader(status) // a second one: net/http logs it, with the place
		return
	}
	informational := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	to := g.w.Header()
	var outer http.Header
	if informational {
		outer = to.Clone()
	}
	if g.header != nil && !g.gone {
		clear(to)
		maps.Copy(to, g.header)
	}
	if informational {
		if g.h.config.Edge && !g.gone {
			delete(to, ResultHeader)
			delete(to, "Server-Timing")
		}
		g.w.WriteHeader(status)
		// When the stream ends meanwhile, net/http returns before it has written the
		// header, out of this very map (Go 1.26.8, http2responseWriterState.writeHeader).
		g.gone = g.gone || g.r.ProtoMajor >= 2 && g.r.Context().Err() != nil
		if !g.gone { // lest a 504 have what h said in between
			clear(to)
			maps.Copy(to, outer)
		}
		return
	}
	g.firstByte()
	if !g.gone {
		g.h.before(to, g, status)
	}
	g.status = status
	g.started.Store(true)
	g.w.WriteHeader(status)
}

// trailers gives net/http what h set after the header had gone. The caller holds mu.
func (g *guard) trailers() {
	if g.header == nil || g.gone {
		return
	}
	to := g.w.Header()
	for _, names := range g.header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, ok := g.header[name]; ok {
				to[name] = values
			}
		}
	}
	for name, values := range g.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			to[name] = values
		}
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(len(p), func() (int, error) { return w.w.Write(p) })
}

func (w *writer) WriteString(s string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(len(s), func() (int, error) { return io.WriteString(w.w, s) })
}

func (w *writer) write(n int, do func() (int, error)) (int, error) {
	if w.hijacked {
		return do()
	}
	if w.guard().expired() {
		w.lost = w.lost || n > 0
		return 0, errDeadline
	}
	if w.status == 0 {
		w.guard().commit(http.StatusOK)
	}
	n, err := do()
	w.bytes += int64(n)
	w.guard().written()
	return n, w.failed(err)
}

// failed returns the error of a write, which the deadline may have ended.
func (w *writer) failed(err error) error {
	if err != nil && w.guard().expired() {
		w.lost = true
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errDeadline
		}
	}
	return err
}

// ReadFrom lets net/http copy a file without it going through this process. Any
// other source may keep it waiting, and the answer at the deadline with it, so it
// is read outside of the lock.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	file := src
	if limited, ok := src.(*io.LimitedReader); ok {
		file = limited.R
	}
	to, fast := w.w.(io.ReaderFrom)
	if !fast || !isFile(file) {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hijacked:
		return 0, http.ErrHijacked
	case w.guard().expired():
		w.lost = true
		return 0, errDeadline
	}
	if w.status == 0 {
		w.guard().commit(http.StatusOK)
	}
	n, err := to.ReadFrom(src)
	w.bytes += n
	w.guard().written()
	return n, w.failed(err)
}

// isFile reports whether reading from r waits for nobody, as it does from a pipe. r may
// be what io.Copy makes of an *os.File, which is one without its WriteTo.
func isFile(r io.Reader) bool {
	f, ok := r.(interface {
		syscall.Conn
		Stat() (os.FileInfo, error)
	})
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func (w *writer) Flush() { _ = w.FlushError() }

func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.guard().expired() && !w.hijacked {
		return errDeadline
	}
	if w.status == 0 && !w.hijacked {
		w.guard().commit(http.StatusOK)
	}
	return w.failed(http.NewResponseController(w.w).Flush())
}

// Hijack takes the connection out of net/http's hands, and out of ours: the deadline
// ends the context and touches the connection no more.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.guard().expired() {
		return nil, nil, errDeadline
	}
	conn, rw, err := http.NewResponseController(w.w).Hijack()
	if err == nil {
		w.guard().firstByte()
		if w.idle != nil {
			w.idle.Stop() // what goes over conn is not seen
		}
		w.fence.Lock()
		w.hijacked = true // its deadlines are h's now
		if w.refusing.Load() {
			_ = conn.SetDeadline(time.Time{}) // the request's came just now
		}
		w.fence.Unlock()
	}
	return conn, rw, err
}

func (w *writer) Push(target string, opts *http.PushOptions) error {
	if p, ok := w.w.(http.Pusher); ok {
		return p.Push(target, opts)
	}
	return http.ErrNotSupported
}

// SetReadDeadline sets a deadline of h's own, which the request's own one undercuts.
func (w *writer) SetReadDeadline(t time.Time) error {
	return w.control(func(rc *http.ResponseController) error { return rc.SetReadDeadline(t) })
}

// SetWriteDeadline is like SetReadDeadline.
func (w *writer) SetWriteDeadline(t time.Time) error {
	return w.control(func(rc *http.ResponseController) error { return rc.SetWriteDeadline(t) })
}

func (w *writer) EnableFullDuplex() error {
	return w.control(func(rc *http.ResponseController) error { return rc.EnableFullDuplex() })
}

// control does not take mu, which a Write may hold that this is to free.
func (w *writer) control(do func(rc *http.ResponseController) error) error {
	w.fence.Lock()
	defer w.fence.Unlock()
	if w.over || w.guard().expired() {
		return errDeadline
	}
	return do(http.NewResponseController(w.w))
}
