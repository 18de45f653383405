package curfewhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestTheEndOfAnotherRequestIsNotMine: net/http hands the cause with which it
// closed a connection to whoever got that connection in the same instant.
func TestTheEndOfAnotherRequestIsNotMine(t *testing.T) {
	for _, err := range []error{
		&budget.Cause{Kind: budget.DeadlineExceeded, Limit: "peer header 164ms"},
		&budget.Cause{Kind: budget.ClientCancelled},
		context.Canceled,
		context.DeadlineExceeded,
	} {
		t.Run(fmt.Sprint(err), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel, enterErr := budget.Enter(t.Context(), budget.Within(time.Minute).Named("mine"))
				defer cancel()
				require.NoError(t, enterErr)
				ask := func() error {
					req, reqErr := http.NewRequestWithContext(ctx, http.MethodGet, "http://peer", nil)
					require.NoError(t, reqErr)
					_, got := (&curfewhttp.Transport{Base: failing{err}}).RoundTrip(req)
					return got
				}
				got := ask()
				assert.NotErrorIs(t, got, context.Canceled)
				assert.NotErrorIs(t, got, context.DeadlineExceeded)
				assert.Equal(t, budget.Failed, budget.KindOf(got))
				assert.ErrorContains(t, got, "another request")
			})
		})
	}
}
