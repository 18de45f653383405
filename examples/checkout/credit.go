package main

import "sync/atomic"

// A retryCredit lets retries be at most retryPercent of successes: each success deposits retryPercent
// tokens, a retry costs a hundred. It counts in whole tokens and holds only as many as
// retryCreditCap retries cost, so good times do not fund a storm.
//
// It stands in for the retrybudget package, which adds expiry and a cap over all processes.
type retryCredit struct{ tokens atomic.Int64 }

const retryCost = 100

// success deposits what one successful call earns.
func (c *retryCredit) success() {
	for {
		have := c.tokens.Load()
		if c.tokens.CompareAndSwap(have, min(have+retryPercent, retryCreditCap*retryCost)) {
			return
		}
	}
}

// take pays for one retry and reports whether there was credit for it. It never waits.
func (c *retryCredit) take() bool {
	for {
		have := c.tokens.Load()
		if have < retryCost {
			return false
		}
		if c.tokens.CompareAndSwap(have, have-retryCost) {
			return true
		}
	}
}
