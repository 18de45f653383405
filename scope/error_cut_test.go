package scope_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestTheTextNamesWhoWasCutShortInside: the usual form is a Map inside of a Run, and
// "body" is not who was slow.
func TestTheTextNamesWhoWasCutShortInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := scope.Run(t.Context(), "search", budget.Within(time.Second), func(ctx context.Context, _ *scope.Scope) error {
			_, err := scope.Map(ctx, "sources", 3, []time.Duration{0, 0, time.Hour}, func(ctx context.Context, d time.Duration) (int, error) {
				select {
				case <-time.After(d):
					return 0, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			return err
		})
		assert.ErrorContains(t, err, `cut short: task "2" in scope "sources"`)
	})
}
