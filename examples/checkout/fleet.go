package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

// A fleet is the set of servers of one mode, each a real net/http server on a loopback port.
type fleet struct {
	servers    []*http.Server
	transports []*http.Transport
	credits    []*retrybudget.Budget // of clients
	inFlight   atomic.Int64          // requests inside handlers, over all servers
	err        error                 // why a server could not start
}

// serve starts a server for h on a free port and returns its base URL. What goes wrong is kept in
// f.err, so that services can be wired up first and looked at once.
func (f *fleet) serve(h http.Handler) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.err = errors.Join(f.err, err)
		return ""
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.inFlight.Add(1)
			defer f.inFlight.Add(-1)
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	f.servers = append(f.servers, server)
	go server.Serve(listener) // returns once close was called
	return "http://" + listener.Addr().String()
}

// transport returns connections of their own for one client, with enough kept alive that a run
// measures services and not the opening of connections.
func (f *fleet) transport() *http.Transport {
	t := &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}
	f.transports = append(f.transports, t)
	return t
}

// drain waits until no handler runs any more, at most for the given time.
func (f *fleet) drain(ctx context.Context, atMost time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	giveUp := time.After(atMost)
	for f.inFlight.Load() > 0 {
		select {
		case <-tick.C:
		case <-giveUp:
			return
		case <-ctx.Done():
			return
		}
	}
}

// close ends all servers and connections at once.
func (f *fleet) close() error {
	var errs []error
	for _, s := range f.servers {
		errs = append(errs, s.Close())
	}
	for _, t := range f.transports {
		t.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, b := range f.credits {
		errs = append(errs, b.Close(ctx))
	}
	return errors.Join(errs...)
}

// idHeader carries the number of the user's checkout through all services, as a trace id would.
const idHeader = "X-Request-Id"

// What the services answer.
type (
	stock struct {
		SKU    string `json:"sku"`
		OnHand int    `json:"on_hand"`
	}
	authorization struct {
		ID string `json:"id"`
	}
	receipt struct {
		Stock         stock         `json:"stock"`
		Authorization authorization `json:"authorization"`
	}
)
