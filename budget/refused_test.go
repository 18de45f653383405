package budget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
)

// TestARefusedContextStillSaysHowMuchWasLeft: an account of the request must not
// lose that just when it is what the request was refused for.
func TestARefusedContextStillSaysHowMuchWasLeft(t *testing.T) {
	for name, c := range map[string]struct {
		parent time.Duration // 0: no deadline
		limit  budget.Limit
		left   time.Duration
	}{
		"too little, without a deadline above": {0, budget.Within(10 * time.Millisecond).Require(time.Second), 10 * time.Millisecond},
		"too little, under a later deadline":   {time.Hour, budget.Within(10 * time.Millisecond).Require(time.Second), 10 * time.Millisecond},
		"too little of the parent's":           {10 * time.Millisecond, budget.Within(time.Hour).Require(time.Second), 10 * time.Millisecond},
		"expired on arrival":                   {0, budget.Within(-time.Second), -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent := t.Context()
				if c.parent > 0 {
					var cancel context.CancelFunc
					parent, cancel = context.WithTimeout(parent, c.parent)
					defer cancel()
				}
				ctx, cancel, err := budget.Enter(parent, c.limit)
				defer cancel()
				assert.Error(t, err)
				assert.Error(t, ctx.Err())
				left, ok := budget.Remaining(ctx)
				assert.True(t, ok)
				assert.Equal(t, c.left, left)
			})
		})
	}
}
