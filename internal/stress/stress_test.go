package stress_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/stress"
)

func TestRoundsAreManyMoreUnderStressAndNeverNone(t *testing.T) {
	for text, want := range map[string]struct{ level, rounds, shown int }{
		"":    {0, 7, 5},
		"0":   {0, 7, 5},
		"-3":  {0, 7, 5},
		"yes": {0, 7, 5},
		"1":   {1, 7, 20},
		"10":  {10, 70, 200},
	} {
		t.Setenv("CURFEW_STRESS", text)
		assert.Equal(t, want.level, stress.Level(), text)
		assert.Equal(t, want.rounds, stress.Rounds(7), text)
		assert.Equal(t, want.shown, stress.Shown(5, 200), text)
	}
	t.Setenv("CURFEW_STRESS", "1")
	assert.Equal(t, 5, stress.Shown(5, 20), "not fewer than without")
}
