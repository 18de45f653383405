package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/scope"
)

// The states of a payment, as clients are told.
const (
	statusPaid = "paid" // booked, once
	statusOpen = "open" // not known yet: ask again, or send the payment again with its key
	statusNone = "none" // nothing is booked, nor will be of what was sent so far
)

// A service takes payments:
//
//	POST /payments        with an Idempotency-Key: 201 booked, 200 booked before, 202 not known yet
//	GET  /payments/{key}  200 paid, 202 open, 404 none
type service struct {
	ledger     ledger
	reconciler *reconciler
	useful     time.Duration // with less than this left nothing is begun
	unknown    atomic.Int64  // commits without an answer
}

func (s *service) handler(limit time.Duration) http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, h http.HandlerFunc) {
		mux.Handle(pattern, curfewhttp.Handler(h, curfewhttp.Config{Max: limit, Useful: s.useful, Route: pattern}))
	}
	route("POST /payments", s.pay)
	route("GET /payments/{key}", s.status)
	return mux
}

func (s *service) pay(w http.ResponseWriter, r *http.Request) {
	p := payment{Key: r.Header.Get("Idempotency-Key")}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&p); err != nil || p.Key == "" || p.Account == "" || p.Cents <= 0 {
		http.Error(w, "a payment has an Idempotency-Key, an account and cents above zero", http.StatusBadRequest)
		return
	}
	defer s.reconciler.begin(p.Key)()
	err := s.ledger.pay(r.Context(), p)
	var commit *curfewsql.CommitError
	switch {
	case err == nil:
		tell(w, p.Key, http.StatusCreated, statusPaid)
	case errors.Is(err, errPaid):
		tell(w, p.Key, http.StatusOK, statusPaid)
	case errors.Is(err, errReused):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case errors.As(err, &commit) && commit.Outcome == curfewsql.Unknown:
		s.unknown.Add(1)
		s.reconciler.take(p.Key, commit)
		if r.Context().Err() != nil {
			curfewhttp.Error(w, r, err) // 504, which promises nothing either
			return
		}
		tell(w, p.Key, http.StatusAccepted, statusOpen)
	default: // nothing is booked
		curfewhttp.Error(w, r, err)
	}
}

// status answers from the ledger first: what is booked is paid, whatever else is under way.
func (s *service) status(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	open := s.reconciler.open(key) // before the ledger is asked, which it may reach meanwhile
	paid, err := s.ledger.booked(r.Context(), key)
	switch {
	case err != nil:
		curfewhttp.Error(w, r, err)
	case paid:
		tell(w, key, http.StatusOK, statusPaid)
	case open:
		tell(w, key, http.StatusAccepted, statusOpen)
	default:
		tell(w, key, http.StatusNotFound, statusNone)
	}
}

func tell(w http.ResponseWriter, key string, code int, status string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/payments/"+key)
	if code == http.StatusAccepted {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": status})
}

// start serves on a free port until stop is called, which ends it in order.
func (s *service) start(limit time.Duration) (url string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	root := scope.NewRoot("payment")
	server := &http.Server{
		Handler:     s.handler(limit),
		BaseContext: func(net.Listener) context.Context { return root.Context() },
	}
	err = errors.Join(
		root.Serve("reconciler", s.reconciler.serve),
		root.Serve("http", func(context.Context) error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}))
	return "http://" + l.Addr().String(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return errors.Join(server.Shutdown(ctx), root.Drain(ctx))
	}, err
}
