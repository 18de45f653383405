package wire_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget/wire"
)

func TestSlush(t *testing.T) {
	for _, tt := range []struct {
		name  string
		slush wire.Slush
		left  time.Duration
		want  time.Duration
	}{
		{"default, its share", wire.Slush{}, 500 * ms, 25 * ms},
		{"default, its floor", wire.Slush{}, 10 * ms, 2 * ms},
		{"default, at its floor", wire.Slush{}, 40 * ms, 2 * ms},
		{"default, its cap", wire.Slush{}, time.Minute, 50 * ms},
		{"default, at its cap", wire.Slush{}, time.Second, 50 * ms},
		{"default, nothing left", wire.Slush{}, 0, 2 * ms},
		{"default, less than nothing left", wire.Slush{}, -time.Second, 2 * ms},
		{"default, all the time there is", wire.Slush{}, math.MaxInt64, 50 * ms},
		{"own", wire.Slush{Share: 0.1, Floor: 5 * ms, Cap: 20 * ms}, 100 * ms, 10 * ms},
		{"own, floor", wire.Slush{Share: 0.1, Floor: 5 * ms, Cap: 20 * ms}, 10 * ms, 5 * ms},
		{"own, cap", wire.Slush{Share: 0.1, Floor: 5 * ms, Cap: 20 * ms}, time.Second, 20 * ms},
		{"fixed", wire.Slush{Floor: 10 * ms, Cap: 10 * ms}, time.Second, 10 * ms},
		{"a share alone", wire.Slush{Share: 0.1}, time.Second, 100 * ms},
		{"a floor alone", wire.Slush{Floor: 5 * ms}, time.Second, 5 * ms},
		{"a share and a floor", wire.Slush{Share: 0.1, Floor: 5 * ms}, time.Minute, 6 * time.Second},
		{"next to nothing", wire.Slush{Cap: 1}, time.Second, 0},
		{"a floor above the cap", wire.Slush{Floor: 20 * ms, Cap: 10 * ms}, time.Second, 10 * ms},
		{"more than all of it", wire.Slush{Share: 2, Cap: time.Hour}, time.Second, 2 * time.Second},
		{"a negative share", wire.Slush{Share: -1, Cap: time.Second}, time.Second, 0},
		{"negative bounds", wire.Slush{Share: 0.1, Floor: -time.Second, Cap: -time.Second}, time.Second, 0},
		{"no number", wire.Slush{Share: math.NaN(), Floor: ms, Cap: time.Second}, time.Second, ms},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, tt.slush.Of(tt.left)) })
	}
}

// The receiver never gets more than the sender had, whatever slush is set.
func TestSlushIsNeverNegative(t *testing.T) {
	for _, share := range []float64{0, 0.05, 1, 1e300, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, floor := range []time.Duration{0, ms, -ms, math.MaxInt64, math.MinInt64} {
			for _, most := range []time.Duration{0, ms, -ms, math.MaxInt64, math.MinInt64} {
				for _, left := range []time.Duration{0, 1, ms, time.Hour, -time.Hour, math.MaxInt64, math.MinInt64} {
					s := wire.Slush{Share: share, Floor: floor, Cap: most}
					assert.GreaterOrEqual(t, s.Of(left), time.Duration(0), "%+v of %v", s, left)
				}
			}
		}
	}
}
