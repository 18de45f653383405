package retrybudget

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/stress"
)

// drained takes until it is denied and returns how many were granted.
func drained(b *Budget) int {
	n := 0
	for b.TryTake() {
		n++
	}
	return n
}

// After any history: as many as Stats says are granted in a row, and Stats knows
// which parts of tokens do not add up to one.
func TestStatsSaysExactlyHowManyWouldBeAllowed(t *testing.T) {
	var checked, backs, hedges, sets int
	synctest.Test(t, func(t *testing.T) {
		for range stress.Rounds(2000) {
			c := Config{
				Ratio:     []float64{-1, 0.07, 0.3, 0.7, 1, 2}[rand.IntN(6)],
				PerSecond: []float64{-1, 0.5, 1, 3}[rand.IntN(4)],
				Burst:     []int{-1, 1, 2, 5}[rand.IntN(4)],
				Window:    time.Second,
			}
			b := New("target", c)
			if rand.IntN(2) == 0 {
				s := NewSet(c, 3)
				b = s.For("target")
				for range rand.IntN(4) {
					s.For("other").TryTake()
				}
				sets++
			}
			for range rand.IntN(20) {
				v := b
				if rand.IntN(2) == 0 {
					v = b.Hedges()
				}
				switch rand.IntN(5) {
				case 0:
					time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
				case 1, 2:
					for range rand.IntN(10) {
						b.Success()
					}
				case 3:
					v.TryTake()
				case 4:
					var g grant
					if v.take(&g, perToken*uint64(1+rand.IntN(2))) {
						time.Sleep(time.Duration(rand.Int64N(int64(time.Second / 4))))
						v.giveBack(g)
						backs++
					}
				}
			}
			v := b
			if rand.IntN(2) == 0 {
				v = b.Hedges()
				hedges++
			}
			s := v.Stats()
			require.Equal(t, s.Credit+s.Floor, drained(v), "%+v", c)
			if !v.hedge {
				next, ok := b.core.floor.next(b.core.upToDate(), perToken)
				if ok && c.Ratio < 0 {
					const part = 3 * time.Microsecond // of a token gained may be there already
					time.Sleep(next - part)
					require.False(t, next > part && b.TryTake(), "before next")
					time.Sleep(part)
					require.True(t, b.TryTake(), "at next")
				}
			}
			checked++
		}
	})
	t.Logf("%d histories, %d with a Set, %d for hedges, %d given back", checked, sets, hedges, backs)
	assert.Positive(t, backs)
}

func TestTokensGivenBackPayForWhatCostsTwo(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			b := New("target", Config{Ratio: 1, Burst: -1})
			b.Success()
			b.Success()
			var g [2]grant
			require.True(t, b.take(&g[0], perToken))
			require.True(t, b.take(&g[1], perToken))
			b.giveBack(g[order[0]])
			b.giveBack(g[order[1]])
			assert.True(t, b.take(new(grant), 2*perToken))
			assert.Zero(t, drained(b))
			checkBooks(t, b.core)
		})
	}
}

func TestHedgesThatAreGivenBackDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New("target", Config{Ratio: 1, Burst: 4})
		hedges := b.Hedges()
		granted := 0
		for range 100 {
			for range 20 {
				b.Success()
			}
			for range 4 {
				kept, back := grant{}, grant{} // one between two, so that they are no neighbours
				if hedges.take(&kept, perToken) && hedges.take(&back, perToken) {
					hedges.giveBack(back)
					granted++
				}
			}
			time.Sleep(time.Second)
		}
		assert.Equal(t, 400, granted)
		assert.Less(t, len(b.core.own.back), 80)
		assert.Less(t, len(b.core.floor.bucket.back), 5)
	})
}
