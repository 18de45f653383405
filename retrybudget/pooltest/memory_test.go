package pooltest_test

import (
	"testing"
	"time"

	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	pooltest.Run(t, func(*testing.T) pooltest.Lab {
		now := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
		m := &pooltest.Memory{Now: func() time.Time { return now }, MaxMembers: 12}
		return pooltest.Lab{
			Pool: m, Lose: m.Lose, MaxMembers: m.MaxMembers,
			Advance: func(d time.Duration) { now = now.Add(d) },
		}
	})
}
