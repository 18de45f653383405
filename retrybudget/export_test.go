package retrybudget

import (
	"os"
	"strconv"
	"time"
)

// stress returns n, multiplied by the environment variable CURFEW_STRESS.
func stress(n int) int {
	if by, err := strconv.Atoi(os.Getenv("CURFEW_STRESS")); err == nil && by > 0 {
		return n * by
	}
	return n
}

// Stress is stress, for the tests outside of the package.
var Stress = stress

// Armed reports whether a timer of b runs.
func (b *Budget) Armed() bool { return b.core.armed.Load() }

// Ceiling is the longest wait after attempt n, as Do would have it.
func (b Backoff) Ceiling(n int, last time.Duration) time.Duration {
	b.settle()
	return b.ceiling(n, last)
}
