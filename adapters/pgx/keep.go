package curfewpgx

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/curfew-go/curfew/adapters/pgx/internal/stream"
)

// A keeper has the sessions of one configuration whose calls were given up while the server did
// not answer. Each ends in one of these ways:
//
//	kept ──answers are in, made as new──▶ ready ──a connection is wanted──▶ handed over
//	  └───────────── limit, error, or a login in its place ─────────────▶ closed
//
// A session takes the place of one login of the same identity, or is closed for one of another, so that a
// pool never has more connections than it may, kept ones counted.
type keeper struct {
	limit    time.Duration // for the server's answer
	idle     time.Duration // until somebody wants a session that is ready
	patience time.Duration // of a login
	counters *counters

	mu   sync.Mutex
	free map[identity][]*kept // guarded by mu: that nobody waits for
	n    int                  // guarded by mu: all that are not over, waited for or not
}

const (
	// keepFor is how long the server may take to answer what was given up.
	keepFor = 10 * time.Second
	// idleFor is how long a session that is ready waits for somebody who wants it.
	idleFor = 2 * time.Second
	// patience is how long a login waits for a session before it asks the server as well. Where
	// the server answers neither, the wait costs nothing; where it answers new connections alone, this
	// is what they are late by.
	patience = 100 * time.Millisecond
	// oldest is how old a session may be that is kept, the age to which a pool of pgx lets
	// connections come by default. To a pool it is a new one each time.
	oldest = time.Hour
	// mostKept bounds the sessions of a configuration. Each is a socket, a goroutine and about 20 kB.
	mostKept = 256
)

// newKeeper returns the keeper of cfg, which has not been changed yet, and nil where nothing is kept.
// A pooler has sessions of its own, and what a user puts above the network is not to be
// used for a second connection.
func newKeeper(cfg *pgx.ConnConfig, s settings, n *counters) *keeper {
	if s.keep <= 0 || s.pooler || cfg.AfterNetConnect != nil {
		return nil
	}
	return &keeper{limit: s.keep, idle: s.idle, patience: s.patience, counters: n, free: make(map[identity][]*kept)}
}

// A kept session.
type kept struct {
	who     identity
	secure  *tls.Config // that it has, nil for none
	born    time.Time
	session *stream.Session
	at      time.Time     // when it was given up
	ready   chan struct{} // closed when it is as new
	over    chan struct{} // closed when its goroutine has left it
	gone    bool          // guarded by keeper.mu: the keeper knows it no more

	mu    sync.Mutex
	idle  bool // guarded by mu: ready, and not taken
	woken bool // guarded by mu: it is being taken
	sound bool // written before over is closed: it was taken, and nobody spoke
}

// keep takes s, of which the fields above ready are set. It does not wait.
func (k *keeper) keep(s *kept) {
	s.ready, s.over = make(chan struct{}), make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n >= mostKept || time.Since(s.born) > oldest {
		s.session.Close()
		return
	}
	k.n++
	s.at = time.Now()
	k.counters.kept.Add(1)
	k.free[s.who] = append(k.free[s.who], s)
	go k.run(s, time.Now().Add(k.limit))
}

// run brings s to where it can be handed over, and closes it where it is not.
func (k *keeper) run(s *kept, until time.Time) {
	defer func() {
		k.remove(s)
		if !s.sound {
			s.session.Close()
			k.counters.dropped.Add(1)
		}
		close(s.over)
	}()
	if s.session.Settle(until) != nil {
		return
	}
	if !s.begin(k.idle) {
		return
	}
	close(s.ready)
	quiet := s.session.Watch() == nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.sound = false, quiet && s.woken
}

// begin has s wait for somebody, and reports whether it can.
func (s *kept) begin(idle time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = s.session.WatchUntil(time.Now().Add(idle)) == nil
	return s.idle
}

// take returns the connection of s when it is ready, and nil when it is not, or no longer.
func (k *keeper) take(s *kept) net.Conn {
	s.mu.Lock()
	idle := s.idle
	if idle {
		s.woken = true
		_ = s.session.WatchUntil(time.Unix(1, 0))
	}
	s.mu.Unlock()
	if !idle {
		return nil
	}
	<-s.over // Watch has ended or is about to
	if !s.sound {
		return nil
	}
	conn, err := s.session.Resume()
	if err != nil {
		s.session.Close()
		k.counters.dropped.Add(1)
		return nil
	}
	k.counters.reused.Add(1)
	return conn
}

// drop ends s.
func (s *kept) drop() { s.session.Close() }

// claim returns a session of who that nobody else waits for, and nil where there is none: one that
// is ready, or else the one that has waited longest.
func (k *keeper) claim(who identity) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.free[who]
	if len(all) == 0 {
		return nil
	}
	at := 0
	for i, s := range all {
		if s.isReady() {
			at = i
			break
		}
	}
	s := all[at]
	k.setFree(who, append(all[:at:at], all[at+1:]...))
	return s
}

// makeRoom ends the oldest session of another identity than who, of those that nobody waits for. One of who has
// logged in: so a pool has no more sessions either where each of its connections is somebody else.
func (k *keeper) makeRoom(who identity) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var oldest *kept
	for one, all := range k.free {
		if one != who && (oldest == nil || all[0].at.Before(oldest.at)) {
			oldest = all[0]
		}
	}
	if oldest != nil {
		k.setFree(oldest.who, k.free[oldest.who][1:])
		oldest.drop()
	}
}

// putBack undoes claim, for a session that was not taken.
func (k *keeper) putBack(s *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !s.gone {
		k.free[s.who] = append(k.free[s.who], s)
	}
}

// remove forgets s.
func (k *keeper) remove(s *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n--
	s.gone = true
	for i, one := range k.free[s.who] {
		if one == s {
			k.setFree(s.who, append(k.free[s.who][:i:i], k.free[s.who][i+1:]...))
			return
		}
	}
}

// now returns how many sessions are kept.
func (k *keeper) now() int64 {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(k.n)
}

// setFree is called with k.mu held.
func (k *keeper) setFree(who identity, all []*kept) {
	if len(all) == 0 {
		delete(k.free, who)
		return
	}
	k.free[who] = all
}

func (s *kept) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// await waits for s for as long as patience lasts, and ends sooner when it is over.
func (s *kept) await(ctx context.Context, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.ready:
	case <-s.over:
	case <-timer.C:
	case <-ctx.Done():
	}
}
