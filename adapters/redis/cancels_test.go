package curfewredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
	"github.com/curfew-go/curfew/internal/servers"
)

func TestACancelReachesAJobThatIsWatchedElsewhere(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	here, err := curfewredis.NewCancels(client(t, s.Addr(), s.Password), curfewredis.Config{})
	require.NoError(t, err)
	there, err := curfewredis.NewCancels(client(t, s.Addr(), s.Password), curfewredis.Config{})
	require.NoError(t, err)

	ctx, end := checkpoint.Watch(t.Context(), there, "export-7", 20*time.Millisecond)
	defer end()
	other, endOther := checkpoint.Watch(t.Context(), there, "export-8", 20*time.Millisecond)
	defer endOther()
	require.NoError(t, here.Cancel(t.Context(), "export-7", time.Hour))
	<-ctx.Done()
	assert.Equal(t, budget.UserCancelled, budget.KindOf(context.Cause(ctx)))
	assert.NoError(t, other.Err())

	late, endLate := checkpoint.Watch(t.Context(), there, "export-7", 20*time.Millisecond)
	defer endLate()
	<-late.Done() // also who begins afterwards

	require.NoError(t, here.Forget(t.Context(), "export-7"))
	yes, err := there.Cancelled(t.Context(), "export-7")
	assert.NoError(t, err)
	assert.False(t, yes)
}

func TestWorkGoesOnWhileTheSourceIsDownAndIsCancelledAfterwards(t *testing.T) {
	s := servers.Start(t, servers.Redis)
	c, err := curfewredis.NewCancels(client(t, s.Addr(), s.Password), curfewredis.Config{})
	require.NoError(t, err)
	s.Kill()
	_, err = c.Cancelled(t.Context(), "job")
	assert.ErrorContains(t, err, "curfewredis: cancelled: ")
	ctx, end := checkpoint.Watch(t.Context(), c, "job", 20*time.Millisecond)
	defer end()
	assert.ErrorContains(t, c.Cancel(t.Context(), "job", time.Hour), "curfewredis: cancel: ")
	assert.ErrorContains(t, c.Forget(t.Context(), "job"), "curfewredis: forget: ")
	assert.NoError(t, ctx.Err())
	s.Restart()
	soon(t, "cancelled", func() bool { return c.Cancel(t.Context(), "job", time.Hour) == nil })
	<-ctx.Done()
}

func TestBadCallsOfCancelsPanic(t *testing.T) {
	c, err := curfewredis.NewCancels(client(t, "127.0.0.1:1", ""), curfewredis.Config{})
	require.NoError(t, err)
	ctx := context.Background()
	assert.PanicsWithValue(t, "curfewredis: Cancel: empty job", func() { _ = c.Cancel(ctx, "", time.Hour) })
	assert.PanicsWithValue(t, "curfewredis: Forget: empty job", func() { _ = c.Forget(ctx, "") })
	assert.PanicsWithValue(t, "curfewredis: Cancelled: empty job", func() { _, _ = c.Cancelled(ctx, "") })
	assert.PanicsWithValue(t, "curfewredis: Cancel: keep 1ms is below a second", func() { _ = c.Cancel(ctx, "job", time.Millisecond) })
}
