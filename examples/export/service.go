package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A service exports orders:
//
//	POST   /exports            202, and where to ask
//	GET    /exports/{id}       202 while it runs, 200 once it is over
//	DELETE /exports/{id}       202 cancelled, 409 too late for that
//	GET    /exports/{id}/file  the file of one that is done
//
// No request waits for an export, and none of its timeouts has to be as long as one.
type service struct {
	root   *scope.Root
	worker *worker
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, h http.HandlerFunc, stream *curfewhttp.Stream) {
		mux.Handle(pattern, curfewhttp.Handler(h, curfewhttp.Config{Max: 2 * time.Second, Route: pattern, Stream: stream}))
	}
	route("POST /exports", s.create, nil)
	route("GET /exports/{id}", s.status, nil)
	route("DELETE /exports/{id}", s.cancel, nil)
	route("GET /exports/{id}/file", s.file, &curfewhttp.Stream{Lifetime: 10 * time.Minute, Idle: 10 * time.Second})
	return mux
}

// create writes the job down before it says that there is one. From then on it does not depend on this
// process: when that is about to end, the next one begins with the job.
func (s *service) create(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	if err := s.worker.jobs.create(r.Context(), id); err != nil {
		curfewhttp.Error(w, r, err)
		return
	}
	_ = s.start(r.Context(), id)
	w.Header().Set("Location", "/exports/"+id)
	tell(w, http.StatusAccepted, status{ID: id, State: running, Phase: phases[0].name})
}

// start has the job done in the background.
func (s *service) start(ctx context.Context, id string) error {
	return s.root.Go(ctx, "export", budget.Within(jobAtMost), func(ctx context.Context) error { return s.worker.work(ctx, id) })
}

// resume goes on with what an earlier process left behind.
func (s *service) resume(ctx context.Context) error {
	ids, err := s.worker.jobs.unfinished(ctx)
	if err != nil {
		return err
	}
	if err := s.worker.files.sweep(ids); err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.start(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// A status is what a client is told.
type status struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Phase string `json:"phase,omitempty"` // while it runs
	Rows  int64  `json:"rows"`            // up to the last id that is in the file
	Why   string `json:"why,omitempty"`   // it failed
	File  string `json:"file,omitempty"`  // once it is done
}

func (s *service) status(w http.ResponseWriter, r *http.Request) {
	at, ok := s.find(w, r)
	if !ok {
		return
	}
	told := status{ID: at.id, State: at.state, Rows: at.lastID, Why: at.why}
	code := http.StatusOK
	switch at.state {
	case running:
		told.Phase, code = at.phase, http.StatusAccepted
	case done:
		told.File = "/exports/" + at.id + "/file"
	}
	tell(w, code, told)
}

func (s *service) cancel(w http.ResponseWriter, r *http.Request) {
	at, ok := s.find(w, r)
	if !ok {
		return
	}
	inTime, err := s.worker.jobs.cancel(r.Context(), at.id)
	switch {
	case err != nil:
		curfewhttp.Error(w, r, err)
	case inTime:
		tell(w, http.StatusAccepted, status{ID: at.id, State: at.state, Phase: at.phase, Rows: at.lastID})
	default:
		http.Error(w, "this export is published or over", http.StatusConflict)
	}
}

func (s *service) file(w http.ResponseWriter, r *http.Request) {
	at, ok := s.find(w, r)
	if !ok {
		return
	}
	if at.state != done {
		http.Error(w, "this export has no file, or none yet", http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	http.ServeFile(w, r, s.worker.files.whole(at.id))
}

func (s *service) find(w http.ResponseWriter, r *http.Request) (at job, ok bool) {
	at, err := s.worker.jobs.get(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		curfewhttp.Error(w, r, err)
	default:
		return at, true
	}
	return at, false
}

func tell(w http.ResponseWriter, code int, s status) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusAccepted {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s)
}

// open serves on a free port, and goes on with what was left. close ends it in order: jobs stop where
// they can be gone on with, and what must finish does.
func (s *service) open(ctx context.Context) (url string, close func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{
		Handler:     s.handler(),
		BaseContext: func(net.Listener) context.Context { return s.root.Context() },
	}
	close = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), drainAtMost)
		defer cancel()
		return errors.Join(server.Shutdown(ctx), s.root.Drain(ctx))
	}
	err = s.root.Serve("http", func(context.Context) error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	if err == nil {
		err = s.resume(ctx)
	}
	if err != nil {
		return "", nil, errors.Join(err, close())
	}
	return "http://" + l.Addr().String(), close, nil
}

// drainAtMost is more than what must finish may take.
const drainAtMost = 15 * time.Second
