package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every cancel is observed before its group returns, and both are told of it at their worst.
func TestACancelSpreadsBothOfItsLatencies(t *testing.T) {
	for _, s := range Suites() {
		for _, c := range s.Cases(Scale{}) {
			if s.Name == "cancel" {
				assert.Len(t, c.Spread, 1, c.Name)
			}
		}
	}
}

func TestADeadlineIsMeasuredOnlyWhereAllHadParkedBeforeIt(t *testing.T) {
	got := expire(3, 20*time.Millisecond, expireChannel)
	require.Len(t, got, 2)
	assert.Positive(t, got[0].Value)
	assert.GreaterOrEqual(t, got[1].Value, got[0].Value)
	assert.Empty(t, expire(3, time.Microsecond, expireErrgroup), "began after it")
	few := func(at time.Time, n int, task func(context.Context) error) { expireChannel(at, n-1, task) }
	assert.Empty(t, expire(3, 20*time.Millisecond, few), "never began")
}

func TestWhereTasksParkLateAllSystemsHaveLonger(t *testing.T) {
	var rooms []time.Duration
	never := func(at time.Time, _ int, _ func(context.Context) error) {
		rooms = append(rooms, time.Until(at).Round(parksIn(1)))
	}
	room := parksIn(1)
	w, other := expires("late", 1, &room, never).Make(), expires("other", 1, &room, never).Make()
	assert.Empty(t, w.Sample())
	assert.Equal(t, []time.Duration{parksIn(1), 2 * parksIn(1), 4 * parksIn(1), 8 * parksIn(1)}, rooms)
	assert.Empty(t, other.Sample())
	assert.Len(t, rooms, 5, "what one took before is where the next begins, whoever it is")
}
