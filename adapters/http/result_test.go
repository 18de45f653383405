package curfewhttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

func TestAResultIsReadAsItWasWritten(t *testing.T) {
	flags := []bool{false, true}
	for k := budget.None; k <= budget.Closed; k++ {
		for _, notStarted := range flags {
			for _, own := range flags {
				for _, retried := range flags {
					want := curfewhttp.Result{Kind: k, NotStarted: notStarted, OwnLimit: own, Retried: retried}
					got, ok := curfewhttp.ResultOf(http.Header{curfewhttp.ResultHeader: {want.String()}})
					assert.True(t, ok, want)
					assert.Equal(t, want, got)
				}
			}
		}
	}
}

func TestAResultOfAnotherVersionIsReadAsFarAsItGoes(t *testing.T) {
	got, ok := curfewhttp.ResultOf(http.Header{curfewhttp.ResultHeader: {"gone_fishing; not-started;pond=3"}})
	assert.True(t, ok)
	assert.Equal(t, curfewhttp.Result{Kind: budget.Failed, NotStarted: true}, got)
}

func TestWhatIsNoResultIsNone(t *testing.T) {
	for _, values := range [][]string{
		nil, {""}, {"ok", "ok"}, {";not-started"}, {"OK"}, {"ok ok"}, {"ok\r\nX: y"},
		{string(make([]byte, 200))},
	} {
		_, ok := curfewhttp.ResultOf(http.Header{curfewhttp.ResultHeader: values})
		assert.False(t, ok, "%q", values)
	}
}
