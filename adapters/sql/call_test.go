package curfewsql

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Between the look at a transaction's ctx and the call it may end.
func TestACallThatJoinsAnEndedTransactionHasEndedAtOnce(t *testing.T) {
	why := errors.New("left")
	tx, end := context.WithCancelCause(t.Context())
	end(why)
	for range 100 {
		own, cancel := context.WithCancel(t.Context())
		k := &call{own: own, user: own}
		k.join(tx)
		assert.ErrorIs(t, k.user.Err(), context.Canceled)
		assert.Equal(t, why, context.Cause(k.user))
		k.release()
		cancel()
	}
}
