package main

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A meter stands at the warehouse's door and beside its workers. It writes down what really happened
// and influences nothing; figures.go joins its records with those of the users afterwards.
type meter struct {
	clock stopwatch

	calls    []atomic.Int32 // per user: calls that arrived at the warehouse
	arrivals []atomic.Int32 // per second of the incident: the same calls
	total    atomic.Int64

	mu     sync.Mutex
	pieces []piece // protected by mu
}

// A piece is what one worker did for one call, from the moment the worker was taken.
type piece struct {
	user       int
	start, end time.Duration // incident time
	answered   bool          // false: the worker stopped before it had an answer
	left       time.Duration // when the caller hung up, or stayed
}

// stayed is the piece.left of a caller who was still connected when the work ended.
const stayed = time.Duration(1<<63 - 1)

func newMeter(clock stopwatch, users int, length time.Duration) *meter {
	return &meter{
		clock:    clock,
		calls:    make([]atomic.Int32, users),
		arrivals: make([]atomic.Int32, int(length/time.Second)+1),
		pieces:   make([]piece, 0, 2*users),
	}
}

// A visit is one call at the warehouse. It travels in the request's context.
type visit struct {
	user, call int
	caller     context.Context // net/http's own: it ends when the caller's connection does
}

type visitKey struct{}

// watch counts the calls that reach warehouse, also those it will refuse.
func (m *meter) watch(warehouse http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.Header.Get(idHeader))
		if err != nil || id < 0 || id >= len(m.calls) {
			http.Error(w, "bad "+idHeader, http.StatusBadRequest)
			return
		}
		v := &visit{user: id, call: int(m.calls[id].Add(1)), caller: r.Context()}
		m.total.Add(1)
		if second := int(m.clock.now() / time.Second); second < len(m.arrivals) {
			m.arrivals[second].Add(1)
		}
		warehouse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	})
}

// metered returns a context that never ends, as context.Background() would be, but which the meter
// still recognises.
func metered(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

// work is a piece in the making.
type work struct {
	user, call int
	meter      *meter
	start      time.Duration
	left       atomic.Int64
	caller     context.Context
	unwatch    func() bool
}

// begin is called when a worker starts on the call that ctx belongs to.
func (m *meter) begin(ctx context.Context) *work {
	v := ctx.Value(visitKey{}).(*visit)
	w := &work{user: v.user, call: v.call, meter: m, start: m.clock.now(), caller: v.caller}
	w.left.Store(int64(stayed))
	w.unwatch = context.AfterFunc(v.caller, func() { w.left.Store(int64(m.clock.now())) })
	return w
}

func (w *work) end(answered bool) {
	p := piece{user: w.user, start: w.start, end: w.meter.clock.now(), answered: answered}
	w.unwatch()
	p.left = time.Duration(w.left.Load())
	if p.left == stayed && w.caller.Err() != nil {
		p.left = p.end // hung up this very moment, before the AfterFunc could note it
	}
	w.meter.mu.Lock()
	w.meter.pieces = append(w.meter.pieces, p)
	w.meter.mu.Unlock()
}

// record copies what was written down so far; work that still runs is not in it.
func (m *meter) record(p plan, users []user) *recording {
	rec := &recording{plan: p, users: users, calls: make([]int, len(m.calls)), arrivals: make([]int, len(m.arrivals))}
	for i := range m.calls {
		rec.calls[i] = int(m.calls[i].Load())
	}
	for i := range m.arrivals {
		rec.arrivals[i] = int(m.arrivals[i].Load())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rec.pieces = append(rec.pieces, m.pieces...)
	return rec
}
