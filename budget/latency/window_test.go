package latency

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A goroutine that read the clock, stood still for a window, and then found the slice
// to be of another epoch than its own, empties nothing that others have counted since.
func TestWhoStoodStillEmptiesNoLiveSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{Window: 6 * time.Second})
		time.Sleep(5500 * time.Millisecond) // it reads the clock here
		time.Sleep(6 * time.Second)         // the same place of the ring
		for range 1000 {
			o.Record(time.Millisecond, nil)
		}
		o.turn()
		assert.Equal(t, uint64(1000), o.Snapshot().Stats().Answered)
	})
}
