package retrybudget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
)

func TestCreditExpiresBetweenNineTenthsAndAllOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for offset := range 20 {
			b := retrybudget.New("target", none(1))
			b.Success() // starts the slices
			time.Sleep(time.Duration(offset) * 137 * time.Millisecond)
			earn(b, 10)
			time.Sleep(9*time.Second - 1)
			assert.GreaterOrEqual(t, b.Stats().Credit, 10)
			time.Sleep(time.Second + 1)
			assert.Zero(t, drain(b))
		}
	})
}

// Credit comes back by itself as old as it is, with nobody asking: the timer
// makes the marks, and a taker that comes years later finds all of it expired.
func TestDepositsAloneAreDated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", none(1))
		for range 60 { // a minute of one success a second, and no taker
			b.Success()
			time.Sleep(time.Second)
		}
		assert.InDelta(t, 9, drain(b), 1)
	})
}

func TestAQuietNightDoesNotFundAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{Ratio: 0.1, Burst: 5, PerSecond: 1})
		for range 1000 {
			earn(b, 100)
			time.Sleep(time.Second)
		}
		assert.InDelta(t, 90+5, drain(b), 10, "nine or ten seconds' worth")
		earn(b, 1000)
		time.Sleep(8 * time.Hour)
		assert.Equal(t, 5, drain(b))
	})
}

func TestTheTimerStopsAWindowAfterTheLastSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retrybudget.New("target", retrybudget.Config{})
		assert.False(t, b.Armed())
		b.Success()
		for range 3 {
			assert.True(t, b.Armed())
			time.Sleep(9 * time.Second)
			b.Success()
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		assert.False(t, b.Armed())
		b.Success()
		assert.True(t, b.Armed())
		// The bubble ends with it armed, which no goroutine could do.
	})
}

// Package variables are made outside of any bubble, and tests use them in many.
func TestABudgetFromOutsideWorksInOneBubbleAfterTheOther(t *testing.T) {
	b := retrybudget.New("target", retrybudget.Config{Ratio: 1, Burst: 1, PerSecond: 1})
	b.Success() // arms the timer outside
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			drain(b) // whatever the one before left, and sees the clock
			time.Sleep(2 * time.Second)
			assert.Equal(t, 1, drain(b), "the floor fills")
			earn(b, 5)
			assert.Equal(t, 5, drain(b))
			earn(b, 5)
			time.Sleep(11 * time.Second)
			assert.Equal(t, 1, drain(b), "credit expires")
			earn(b, 5) // leaves the timer of this bubble armed
		})
	}
	drain(b)
	earn(b, 3)
	assert.Equal(t, 3, drain(b))
}

// Each way in or out is a step of decades, and there are many in one test binary.
func TestABudgetKeepsItsCapHoweverOftenItGoesInAndOutOfBubbles(t *testing.T) {
	b := retrybudget.New("target", retrybudget.Config{Ratio: 1, Burst: 1, PerSecond: 1})
	for range 8 {
		synctest.Test(t, func(t *testing.T) {
			drain(b)
			earn(b, 5)
			time.Sleep(11 * time.Second)
			assert.Equal(t, 1, drain(b), "the floor fills, credit expires")
			earn(b, 5)
			assert.Equal(t, 5, drain(b))
		})
		drain(b)
		earn(b, 5)
		assert.Equal(t, 5, drain(b), "outside")
	}
}
