package main

import "time"

// This file holds every number that decides the outcome, and both modes run on the same ones.
// All times are incident time; a [pace] turns them into the (ten times shorter) real time of a run.
//
// Four rules keep the figures honest; constants_test.go and pool_test.go hold them:
//
//  1. Healthy, the warehouse is at most 20% busy.
//  2. Under the fault its workers can just carry the un-amplified load: 85-97% busy at one call per
//     checkout. Spare capacity would let curfew hide waste and would keep "before" from collapsing.
//  3. Slush, useful minimum and backoff shrink by the same scale as every other time, and the slow
//     tail stands apart: all other calls answer within 2.6 s.
//  4. Arrivals are open loop (users do not wait for each other), and queues are bounded and first in,
//     first out.

// The load: who comes, and how long they stay.
const (
	arrivalsPerSecond = 40
	healthyPhase      = 60 * time.Second
	degradedPhase     = 120 * time.Second
	drainAtMost       = 80 * time.Second // how long leftovers may run on after the last arrival
	patience          = 5 * time.Second  // the user closes the browser
)

// A poolSize is how many requests a service works on at once, and how many may wait for that.
type poolSize struct{ workers, queue int }

// Who has pools: the warehouse, because its workers are what runs out, and the order service, because
// its threads were the second thing to run out in the incident.
var (
	warehouseWorkers = poolSize{workers: 103, queue: 500}
	orderThreads     = poolSize{workers: 256, queue: 500}
)

// The warehouse: each worker reads a row of SQLite, and that takes this long.
const (
	healthyService = 40 * time.Millisecond

	// The fault. 97 of 100 reads take slowMin to slowMax, the others tailMin to tailMax, which is
	// longer than the 3 s that any client of the warehouse ever waits.
	slowMin, slowMax = 2200 * time.Millisecond, 2600 * time.Millisecond
	tailMin, tailMax = 3200 * time.Millisecond, 6000 * time.Millisecond
	tailPercent      = 3
)

// The pause after a client's first failed attempt, doubled after each further one. Mode before waits
// just that, mode curfew draws from it (full jitter).
const firstBackoff = 100 * time.Millisecond

// Payment is healthy throughout.
const paymentService = 60 * time.Millisecond

// A callSetting is what one team chose for one of its clients, without looking at anybody else's.
// attempts counts the first one too: "3 retries" are 4 attempts.
type callSetting struct {
	timeout  time.Duration
	attempts int
}

// The settings of the incident, used by mode before: 3 × 4 × 4 = 48 calls for one checkout.
var (
	gatewayToOrder       = callSetting{timeout: 10 * time.Second, attempts: 3}
	orderToInventory     = callSetting{timeout: 5 * time.Second, attempts: 4}
	inventoryToWarehouse = callSetting{timeout: 3 * time.Second, attempts: 4}
	orderToPayment       = callSetting{timeout: 8 * time.Second, attempts: 3}
)

// The settings of mode curfew: one deadline for the whole checkout, set at the edge.
const (
	edgeBudget = 3 * time.Second

	// Kept back by the gateway for the way home to the user: a browser passes on no budget, so nobody
	// before the gateway has taken anything off.
	edgeReserve = 100 * time.Millisecond

	// Kept back at every hop for local work and the way home: a share of what is left, within bounds.
	slushShare = 0.05
	slushFloor = 2 * time.Millisecond
	slushCap   = 50 * time.Millisecond

	usefulMinimum = healthyService // with less left no read can finish, not even a healthy one

	callAttempts  = 3                // per call, by the innermost client only
	retryShare    = 0.1              // retries are at most this share of successes
	retryWindow   = 10 * time.Second // and a success is worth a retry no longer than this, or one real second
	typicalWindow = 10 * time.Second // a retry is made when the median of these answers still fits
	breakerOpen   = 10 * time.Second // how long a client's breaker stays open once it has tripped
)
