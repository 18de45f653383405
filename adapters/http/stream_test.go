package curfewhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
)

// A server that goes down ends the contexts of its requests, as scope.Root's does that is
// the BaseContext. Their clients wait, and are told what they may do.
func TestAServerThatGoesDownIsNotAClientThatLeft(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var counts meter.Memory
		base, down := context.WithCancelCause(t.Context())
		began := make(chan struct{})
		s := &server{Server: httptest.NewUnstartedServer(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
			curfewhttp.Error(w, r, context.Cause(r.Context()))
		}), curfewhttp.Config{Max: time.Hour, Recorder: &counts})), log: &lines{}}
		s.Config.BaseContext = func(net.Listener) context.Context { return base }
		s.EnableHTTP2 = http2
		if http2 {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		go func() { <-began; down(&budget.Cause{Kind: budget.Shutdown}) }()
		resp, _ := s.get(t, "60000")
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		result, ok := curfewhttp.ResultOf(resp.Header)
		assert.True(t, ok)
		assert.Equal(t, budget.Shutdown, result.Kind)
		assert.Zero(t, counts.Count(meter.Cancelled, meter.Label{Key: "kind", Value: "client_cancelled"}))
		assert.EqualValues(t, 1, counts.Count(meter.Outcome, meter.Label{Key: "outcome", Value: "shutdown"}))

		resp, _ = s.get(t)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "and what comes now is not begun")
	}
}

// A taken is a writer whose connection can be taken.
type taken struct {
	nobody
	conn net.Conn
}

func (w *taken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}

// What goes over a connection that was taken is not seen, so that it cannot be idle.
func TestATakenConnectionIsNeverIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, before := range map[string]func(w http.ResponseWriter){
			"at once":            func(http.ResponseWriter) {},
			"after its status":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) },
			"after some silence": func(w http.ResponseWriter) { time.Sleep(100 * ms) },
		} {
			client, conn := net.Pipe()
			h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				before(w)
				_, _, err := http.NewResponseController(w).Hijack()
				require.NoError(t, err, name)
				time.Sleep(time.Minute)
				assert.NoError(t, context.Cause(r.Context()), name)
				time.Sleep(time.Hour)
				assert.ErrorContains(t, context.Cause(r.Context()), "stream lifetime", name)
			}), curfewhttp.Config{Max: time.Second, Stream: &curfewhttp.Stream{Lifetime: time.Hour, Idle: 10 * time.Second}})
			h.ServeHTTP(&taken{nobody{make(http.Header)}, conn}, httptest.NewRequest(http.MethodGet, "/", nil))
			client.Close()
			conn.Close()
		}
	})
}

// A copier is a writer that copies by itself, as net/http's does with the help of the
// kernel.
type copier struct {
	nobody
	copied int
}

func (c *copier) ReadFrom(r io.Reader) (int64, error) {
	c.copied++
	return io.Copy(io.Discard, r)
}

func TestAFileIsCopiedByNetHTTPAndKeepsAStreamFromBeingIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("page"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		h := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				file, err := os.Open(path)
				require.NoError(t, err)
				n, err := io.Copy(w, file)
				file.Close()
				assert.NoError(t, err)
				assert.EqualValues(t, 4, n)
				time.Sleep(6 * time.Second)
			}
			assert.NoError(t, context.Cause(r.Context()))
			time.Sleep(6 * time.Second)
			assert.ErrorContains(t, context.Cause(r.Context()), "stream idle")
		}), curfewhttp.Config{Max: time.Second, Stream: &curfewhttp.Stream{Lifetime: time.Hour, Idle: 10 * time.Second}})
		w := &copier{nobody: nobody{make(http.Header)}}
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)) }, "the stream is cut")
		assert.Equal(t, 5, w.copied)
	})
}
