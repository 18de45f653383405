package retrybudget_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/retrybudget"
)

func TestTheNumbersOfThePackageComment(t *testing.T) {
	for _, tt := range []struct {
		failing          float64
		attempts, budget float64 // calls a second
	}{
		{0.01, 1010, 1010},
		{0.5, 1750, 1054},
		{1, 3000, 1001},
	} {
		synctest.Test(t, func(t *testing.T) {
			rate := func(b *retrybudget.Budget) float64 {
				dice := rand.New(rand.NewPCG(1, 2)) // the same in each run
				const warm, counted, perSecond = 11, 10, 1000
				calls := 0
				for second := range warm + counted {
					if second == warm {
						calls = 0
					}
					start := time.Now()
					for range perSecond {
						_ = retrybudget.Do(t.Context(), b, retrybudget.Policy{Idempotent: true, Backoff: fixed(1)}, func(context.Context) error {
							calls++
							if dice.Float64() < tt.failing {
								return errDown
							}
							return nil
						})
					}
					time.Sleep(time.Until(start.Add(time.Second)))
				}
				return float64(calls) / counted
			}
			assert.InEpsilon(t, tt.attempts, rate(retrybudget.Unlimited()), 0.01, "failing %v", tt.failing)
			assert.InEpsilon(t, tt.budget, rate(retrybudget.New("target", retrybudget.Config{})), 0.01, "failing %v", tt.failing)
		})
	}
}
