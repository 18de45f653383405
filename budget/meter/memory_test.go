package meter_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget/meter"
)

func ExampleMemory() {
	var m meter.Memory
	m.Add(meter.Refused, 1, meter.Label{Key: "reason", Value: "expired_on_arrival"})
	m.Add(meter.Refused, 2, meter.Label{Key: "reason", Value: "malformed"})
	m.Record(meter.RemainingIn, 12.5, meter.Label{Key: "route", Value: "/order"})
	fmt.Println(m.Count(meter.Refused), m.Sum(meter.RemainingIn))
	fmt.Print(&m)
	// Output:
	// 3 12.5
	// curfew.deadline.refused reason="expired_on_arrival" count=1 sum=0
	// curfew.deadline.refused reason="malformed" count=2 sum=0
	// curfew.deadline.remaining_in_ms route="/order" count=1 sum=12.5
}

func TestLabelsNarrowWhatIsCounted(t *testing.T) {
	var m meter.Memory
	a, b := meter.Label{Key: "kind", Value: "a"}, meter.Label{Key: "route", Value: "b"}
	m.Add("n", 1, a)
	m.Add("n", 2, a, b)
	m.Add("other", 4, a, b)
	assert.EqualValues(t, 3, m.Count("n"))
	assert.EqualValues(t, 3, m.Count("n", a))
	assert.EqualValues(t, 2, m.Count("n", b))
	assert.EqualValues(t, 2, m.Count("n", b, a))
	assert.Zero(t, m.Count("n", meter.Label{Key: "kind", Value: "b"}))
}

func TestALabelCannotLookLikeAnother(t *testing.T) {
	var m meter.Memory
	m.Add("n", 1, meter.Label{Key: "a", Value: `1" b="2`})
	m.Add("n", 1, meter.Label{Key: "a", Value: "1"}, meter.Label{Key: "b", Value: "2"})
	assert.EqualValues(t, 1, m.Count("n", meter.Label{Key: "b", Value: "2"}))
}

func TestAMemoryIsBounded(t *testing.T) {
	var m meter.Memory
	for i := range 10_001 {
		m.Add("n", 1, meter.Label{Key: "id", Value: strconv.Itoa(i)})
	}
	m.Add("n", 1, meter.Label{Key: "id", Value: "0"})
	assert.EqualValues(t, 10_001, m.Count("n"))
	assert.EqualValues(t, 1, m.Dropped())
}

func TestManyMayShareAMemory(t *testing.T) {
	var m meter.Memory
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				m.Add("n", 1)
				m.Record("v", 2)
				_ = m.Count("n")
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 8000, m.Count("n"))
	assert.InDelta(t, 16000, m.Sum("v"), 0)
}
