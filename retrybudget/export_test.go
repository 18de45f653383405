package retrybudget

import "time"

// Armed reports whether a timer of b runs.
func (b *Budget) Armed() bool { return b.core.armed.Load() }

// Ceiling is the longest wait after attempt n, as Do would have it.
func (b Backoff) Ceiling(n int, last time.Duration) time.Duration {
	b.settle()
	return b.ceiling(n, last)
}
