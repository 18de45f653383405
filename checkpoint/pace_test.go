package checkpoint

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// play calls Err's counting part at instants that it is told, and returns how many
// turns passed until the clock was read.
func (p *Point) play(turn time.Duration, now *time.Duration) (turns int64) {
	for {
		*now += turn
		turns++
		if p.left--; p.left <= 0 {
			p.pace(*now)
			return turns
		}
	}
}

func TestTheClockIsReadAboutEveryMicrosecond(t *testing.T) {
	for _, turn := range []time.Duration{1, 2, 10, 100, 999, time.Microsecond, time.Millisecond} {
		p, now := &Point{left: 1, turns: 1, most: maxTurns}, time.Duration(0)
		for range 20 {
			p.play(turn, &now)
		}
		for range 20 {
			passed := time.Duration(p.play(turn, &now)) * turn
			assert.LessOrEqual(t, passed, max(look, turn), "turns of %v", turn)
			assert.GreaterOrEqual(t, 2*passed, look, "turns of %v: no oftener than that", turn)
		}
	}
}

func TestTheStrideDoublesAtMostAndFallsAtOnce(t *testing.T) {
	p, now := &Point{left: 1, turns: 1, most: maxTurns}, time.Duration(0)
	for want := int64(1); want <= 512; want *= 2 {
		assert.Equal(t, want, p.play(1, &now))
	}
	for range 20 {
		p.play(1, &now)
	}
	assert.Equal(t, int64(1000), p.turns)
	p.play(time.Millisecond, &now) // the loop has become slow: too late to know, and
	assert.Equal(t, int64(1), p.turns, "the next reading is at the next turn")
	assert.Equal(t, time.Second, p.gap)
	assert.Equal(t, int64(1), p.play(1, &now))
	assert.Equal(t, int64(2), p.play(1, &now), "and from there it doubles again")
}

func TestTheStrideIsBoundedWhereTheClockStandsStill(t *testing.T) {
	p, now := &Point{left: 1, turns: 1, most: maxTurns}, time.Duration(0)
	for range 100 {
		p.play(0, &now)
	}
	assert.Equal(t, int64(maxTurns), p.turns)
}

// Whatever turns cost, the stride is within its bounds, and the gap is that of the
// slowest stretch.
func TestTheStrideOfAnyLoop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p, now := &Point{left: 1, turns: 1, most: maxTurns}, time.Duration(0)
	var gap time.Duration
	for range 10_000 {
		before, start, turn := p.turns, now, time.Duration(1)<<r.IntN(24)
		p.play(turn, &now)
		gap = max(gap, now-start)
		if p.turns < 1 || p.turns > min(2*before, maxTurns) {
			t.Fatalf("%d turns after %d", p.turns, before)
		}
	}
	assert.Equal(t, gap, p.gap)
}
