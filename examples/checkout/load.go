package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A user is one checkout as the person in front of the browser saw it.
type user struct {
	arrived time.Duration // when the user clicked, which no congestion delays (open loop)
	sent    time.Duration // when the generator got round to sending it
	ended   time.Duration // answered, failed, or given up
	outcome string        // bought, or why not
}

// Outcomes that are not a reason given by the gateway.
const (
	outcomeBought = "bought"
	outcomeGaveUp = "gave up"
	outcomeBroken = "connection failed"
)

func (u user) latency() time.Duration { return u.ended - u.arrived }

// schedule draws the users' arrivals: the same number in every second, at instants within it that are
// drawn uniformly, whatever becomes of those who came before (open loop). So arrivals bunch as people
// do, while no figure depends on how many happened to come.
//
// A Poisson process was tried. Two minutes are too short for it at this load: its luck alone moved the
// collapse of mode before between 10 and 80 s into the fault, and mode curfew between 92% and 97%.
func schedule(seed uint64, length time.Duration) []time.Duration {
	r := rand.New(rand.NewPCG(seed, 0))
	var arrivals []time.Duration
	for second := time.Duration(0); second < length; second += time.Second {
		for range arrivalsPerSecond {
			arrivals = append(arrivals, second+time.Duration(r.Int64N(int64(time.Second))))
		}
	}
	slices.Sort(arrivals)
	return arrivals
}

// A crowd sends one checkout per arrival to the gateway.
type crowd struct {
	gateway string
	client  *http.Client // gives up after the users' patience
	clock   stopwatch
	users   []user // each written by the goroutine of that user only

	ended, bought atomic.Int64 // so far, for the progress line
}

func newCrowd(gateway string, transport http.RoundTripper, clock stopwatch, arrivals []time.Duration) *crowd {
	c := &crowd{
		gateway: gateway,
		client:  &http.Client{Transport: transport, Timeout: clock.pace.real(patience)},
		clock:   clock,
		users:   make([]user, len(arrivals)),
	}
	for i, at := range arrivals {
		c.users[i].arrived = at
	}
	return c
}

// run returns when every user has an answer or has given up, or early when ctx ends.
func (c *crowd) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range c.users {
		if wait := time.Until(c.clock.timeOf(c.users[i].arrived)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		wg.Go(func() { c.checkout(ctx, i) })
	}
	return nil
}

func (c *crowd) checkout(ctx context.Context, i int) {
	u := &c.users[i]
	u.sent = c.clock.now()
	u.outcome = c.buy(ctx, i)
	u.ended = c.clock.now()
	c.ended.Add(1)
	if u.outcome == outcomeBought {
		c.bought.Add(1)
	}
}

func (c *crowd) buy(ctx context.Context, i int) (outcome string) {
	req, err := http.NewRequestWithContext(ctx, "POST", c.gateway+"/checkout/"+sku(i), nil)
	if err != nil {
		return outcomeBroken
	}
	req.Header.Set(idHeader, strconv.Itoa(i))
	resp, err := c.client.Do(req)
	if err != nil {
		return hungUp(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return hungUp(err)
	}
	if resp.StatusCode == http.StatusOK {
		return outcomeBought
	}
	return reasonIn(resp.StatusCode, string(body))
}

// hungUp tells a user who ran out of patience from a connection that failed.
func hungUp(err error) string {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return outcomeGaveUp
	}
	return outcomeBroken
}

// reasonIn returns the kind that the gateway names, or else the status.
func reasonIn(status int, body string) string {
	if kind, ok := kindNamed(body); ok {
		return kind.String()
	}
	return strconv.Itoa(status) + " " + http.StatusText(status)
}
