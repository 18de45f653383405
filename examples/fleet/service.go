package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A service fails a share of its calls, and counts who called for which time.
type service struct {
	url     string
	failing float64
	server  *http.Server
	counts  [3]struct{ first, retries atomic.Int64 } // by kind
}

func startService(failing float64) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{url: "http://" + listener.Addr().String(), failing: failing}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go s.server.Serve(listener) // returns once close was called
	return s, nil
}

func (s *service) close() error { return s.server.Close() }

// ServeHTTP answers at once.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || kind < 0 || kind >= len(s.counts) {
		http.NotFound(w, r)
		return
	}
	if r.Header.Get(attemptHeader) == "1" {
		s.counts[kind].first.Add(1)
	} else {
		s.counts[kind].retries.Add(1)
	}
	if rand.Float64() < s.failing {
		http.Error(w, "no", http.StatusServiceUnavailable)
	}
}

// past is what happened in each second, by kind.
type past struct{ first, retries [3][]int64 }

// watch writes a line each second.
func (s *service) watch(ctx context.Context, length time.Duration, out io.Writer) (*past, error) {
	fmt.Fprintf(out, "%7s", "second")
	for _, kind := range kinds {
		fmt.Fprintf(out, "  %20s", kind)
	}
	fmt.Fprintln(out)
	p := &past{}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for i := range int(length / time.Second) {
		select {
		case <-second.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		fmt.Fprintf(out, "%7d", i+1)
		for kind := range kinds {
			retries := s.counts[kind].retries.Swap(0)
			p.first[kind] = append(p.first[kind], s.counts[kind].first.Swap(0))
			p.retries[kind] = append(p.retries[kind], retries)
			fmt.Fprintf(out, "  %20d", retries)
		}
		fmt.Fprintln(out)
	}
	return p, nil
}

// load is how many calls the service got for each one that was wanted.
func (p *past) load(kind int) float64 {
	var first, retries int64
	for i := range p.first[kind] {
		first += p.first[kind][i]
		retries += p.retries[kind][i]
	}
	return float64(first+retries) / float64(max(first, 1))
}

func (p *past) summary(out io.Writer) {
	fmt.Fprintf(out, "\n%7s", "load")
	for kind := range kinds {
		fmt.Fprintf(out, "  %19.3f×", p.load(kind))
	}
	fmt.Fprintln(out)
}
