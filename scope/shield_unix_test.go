//go:build unix

package scope_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// TestCase32_WaitingForAShieldedTaskCostsNoProcessor: an hour in a bubble would
// show any polling, and a spin would never let it pass.
func TestCase32_WaitingForAShieldedTaskCostsNoProcessor(t *testing.T) {
	cpu := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for name, end := range map[string]func(*scope.Scope){
		"cancel": func(s *scope.Scope) { s.Cancel(nil) },
		"panic":  func(s *scope.Scope) { s.Go("bad", func(context.Context) error { return explode("ouch") }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := quiet()
				start, before := time.Now(), cpu()
				_ = recovered(func() {
					_ = scope.Run(ctx, "order", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
						for i := range 8 {
							s.Go(fmt.Sprint("shielded-", i), func(ctx context.Context) error {
								ctx, done := budget.Detached(ctx, 2*time.Hour)
								defer done()
								select {
								case <-time.After(time.Hour):
								case <-ctx.Done():
								}
								return nil
							})
						}
						synctest.Wait()
						end(s)
						return s.Wait()
					})
				})
				assert.Equal(t, time.Hour, time.Since(start))
				used := cpu() - before
				t.Logf("%v of processor time for an hour", used)
				assert.Less(t, used, 5*time.Second, "5 ms a second would be 18 s")
			})
		})
	}
}
