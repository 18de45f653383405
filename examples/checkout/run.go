package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/curfew-go/curfew/examples/internal/database"
)

// A plan says what both modes go through.
type plan struct {
	pace     pace
	seed     uint64
	dsn      string        // of the PostgreSQL that the stock is in; empty for a file of SQLite
	healthy  time.Duration // how long the warehouse is well
	degraded time.Duration // how long users keep coming once it is not
}

func (p plan) length() time.Duration { return p.healthy + p.degraded }

// A mode is one way of writing the five services. start returns the gateway's URL.
type mode struct {
	name  string
	start func(*fleet, *stockroom) (gateway string, err error)
}

// A recording is all that was written down during one mode's run, in incident time.
type recording struct {
	plan     plan
	users    []user
	calls    []int   // per user: calls that arrived at the warehouse
	arrivals []int   // per second: the same calls
	pieces   []piece // what the warehouse's workers did
}

// run takes one mode through the plan, on fresh servers and fresh stock, and waits for what it
// left behind: in mode before, handlers are still retrying when the last user is long gone.
func (p plan) run(ctx context.Context, m mode, show *progress) (rec *recording, err error) {
	dir, err := os.MkdirTemp("", "checkout-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	place := database.Place{
		DSN: p.dsn, Schema: "curfew_checkout_" + strings.ToLower(rand.Text()[:8]),
		File:  filepath.Join(dir, "stock.db"),
		Slush: hopSlush(p.pace),
	}
	room, err := openStockroom(ctx, place, p.pace, p.seed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, room.close()) }()

	arrivals := schedule(p.seed, p.length())
	clock := stopwatch{began: time.Now(), pace: p.pace}
	room.meter = newMeter(clock, len(arrivals), p.length()+drainAtMost)
	servers := &fleet{}
	defer func() { err = errors.Join(err, servers.close()) }()
	gateway, err := m.start(servers, room)
	if err != nil {
		return nil, fmt.Errorf("starting the services of mode %s: %w", m.name, err)
	}

	crowd := newCrowd(gateway, servers.transport(), clock, arrivals)
	fault := time.AfterFunc(time.Until(clock.timeOf(p.healthy)), room.degrade)
	defer fault.Stop()
	stopShowing := show.follow(m.name, p, crowd, room.meter)
	err = crowd.run(ctx)
	servers.drain(ctx, p.pace.real(drainAtMost))
	stopShowing()
	if err != nil {
		return nil, err
	}
	return room.meter.record(p, crowd.users), nil
}
