package main

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestRetriesAreATenthOfSuccesses(t *testing.T) {
	var c retryCredit
	taken := 0
	for range 1000 {
		c.success()
		if c.take() {
			taken++
		}
	}
	if taken != 100 {
		t.Errorf("%d retries for 1000 successes", taken)
	}
}

func TestNoCreditWithoutSuccess(t *testing.T) {
	var c retryCredit
	if c.take() {
		t.Error("a new credit paid for a retry")
	}
}

func TestCreditOfGoodTimesIsCapped(t *testing.T) {
	var c retryCredit
	for range 10_000 {
		c.success()
	}
	taken := 0
	for c.take() {
		taken++
	}
	if taken != retryCreditCap {
		t.Errorf("%d retries in a row", taken)
	}
}

func TestCreditIsNeverOverspent(t *testing.T) {
	var (
		c              retryCredit
		wg             sync.WaitGroup
		success, taken atomic.Int64
	)
	for range 16 {
		wg.Go(func() {
			for i := range 2000 {
				if i%3 == 0 {
					c.success()
					success.Add(1)
				}
				if c.take() {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load()*retryCost > success.Load()*retryPercent {
		t.Errorf("%d retries for %d successes", taken.Load(), success.Load())
	}
}
