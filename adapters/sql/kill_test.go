package curfewsql_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewsql "github.com/curfew-go/curfew/adapters/sql"
	"github.com/curfew-go/curfew/budget"
)

// The reserved connection is busy with one kill while the statement of the next is answered.
func TestAKillThatWaitedForItsTurnIsNotSentBehindTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &killable{answers: time.Second, slow: 10 * time.Millisecond, began: time.Now(), kills: map[int64]chan struct{}{1: make(chan struct{}, 1)}}
		db := curfewsql.Wrap(server, curfewsql.WithDialect(server))
		defer db.Close()
		work := func(deadline time.Duration) chan error {
			failed := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithDeadline(t.Context(), server.began.Add(deadline))
				defer cancel()
				_, err := db.ExecContext(ctx, "work")
				failed <- err
			}()
			return failed
		}
		answered := work(1038 * time.Millisecond) // to be killed at 998 ms, and answered at 1 s
		time.Sleep(33 * time.Millisecond)
		killed := work(1035 * time.Millisecond) // killed from 995 ms to 1005 ms
		require.NoError(t, <-answered)
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(<-killed))
		lines := strings.Join(server.j.read(), "\n")
		assert.Equal(t, 1, strings.Count(lines, " kill\n"), lines)
		assert.NotContains(t, lines, "settle")
	})
}
