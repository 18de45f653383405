package scope_test

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
)

// goexit ends the goroutine, as testing.T.FailNow does.
func goexit() { runtime.Goexit() }

// startLine returns a function that n goroutines call to go on together, or a
// few yields apart, so that each of them is the faster one at times. It spins:
// a channel would wake them one after the other.
func startLine(n int64) (wait func()) {
	var there atomic.Int64
	return func() {
		there.Add(1)
		for there.Load() < n {
			runtime.Gosched()
		}
		for range rand.IntN(4) {
			runtime.Gosched()
		}
	}
}
