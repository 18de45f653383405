package bench

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

var _ = register(Suite{
	Name:  "http",
	About: "one request through a handler under a deadline of 2 s. In process: without net/http's server, under a context as it makes one; loopback: over a connection that is kept.",
	Cases: httpCases,
})

// A wrapper gives a handler a deadline.
type wrapper func(http.Handler) http.Handler

var handlers = map[string]wrapper{
	"bare": func(h http.Handler) http.Handler { return h },
	"std/WithTimeout": func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
			defer cancel()
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	},
	"std/TimeoutHandler": func(h http.Handler) http.Handler { return http.TimeoutHandler(h, 2*time.Second, "") },
	"curfew":             func(h http.Handler) http.Handler { return curfewhttp.Handler(h, curfewhttp.Config{}) },
}

// answers is a handler that writes two bytes, and may ask for its context's Done.
func answers(asks bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asks {
			_ = r.Context().Done()
		}
		w.Header()["Content-Type"] = []string{"text/plain"}
		_, _ = io.WriteString(w, "ok")
	})
}

func httpCases(Scale) []Case {
	inProcess := Case{Name: "in process", Parent: "std", Limit: "bare"}
	asks := Case{Name: "in process, asks for Done", Parent: "std", Limit: "bare"}
	loopback := Case{Name: "loopback", Parent: "std", Limit: "bare", Fine: true}
	for _, name := range []string{"curfew", "std/WithTimeout", "std/TimeoutHandler", "bare"} {
		wrap := handlers[name]
		inProcess.Systems = append(inProcess.Systems, served(name, wrap(answers(false))))
		asks.Systems = append(asks.Systems, served(name, wrap(answers(true))))
		loopback.Systems = append(loopback.Systems, connected(name, wrap(answers(false))))
	}
	return []Case{inProcess, asks, loopback}
}

// served hands requests to h as net/http does.
func served(name string, h http.Handler) System {
	return System{name, func() Work {
		server := kept(context.WithCancel(context.WithValue(context.Background(), http.ServerContextKey, new(http.Server))))
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		return Work{Op: func(n int) {
			for range n {
				ctx, cancel := context.WithCancel(server)
				h.ServeHTTP(&nobody{make(http.Header)}, request.WithContext(ctx))
				cancel()
			}
		}}
	}}
}

// nobody is a http.ResponseWriter that costs nothing.
type nobody struct{ header http.Header }

func (w *nobody) Header() http.Header         { return w.header }
func (w *nobody) Write(p []byte) (int, error) { return len(p), nil }
func (w *nobody) WriteHeader(int)             {}

// connected sends requests to h over one connection.
func connected(name string, h http.Handler) System {
	return System{name, func() Work {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(err)
		s := &http.Server{Handler: h}
		go func() { _ = s.Serve(l) }()
		t := &http.Transport{}
		client, url := &http.Client{Transport: t}, "http://"+l.Addr().String()
		return Work{
			Op: func(n int) {
				for range n {
					resp, err := client.Get(url)
					must(err)
					_, err = io.Copy(io.Discard, resp.Body)
					must(err)
					must(resp.Body.Close())
				}
			},
			Close: func() {
				t.CloseIdleConnections()
				must(s.Close())
			},
		}
	}}
}
