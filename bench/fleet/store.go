package fleet

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

// A Store is where the pool is, as seen from the members. The zero Store answers at
// once and always.
type Store struct {
	RTT  time.Duration // of a call
	Lost float64       // share of the answers that never come, though the call was served
	// From Down until Up, since the beginning, it swallows every call. Both zero: never.
	Down, Up time.Duration
}

// remote is a pool behind a Store.
type remote struct {
	retrybudget.Pool
	store Store
	began time.Time
	calls *atomic.Int64
}

// Sync is part of retrybudget.Pool.
func (p *remote) Sync(ctx context.Context, r retrybudget.PoolRequest) (retrybudget.PoolGrant, error) {
	p.calls.Add(1)
	if now := time.Since(p.began); now >= p.store.Down && now < p.store.Up {
		return lost(ctx)
	}
	time.Sleep(p.store.RTT / 2)
	g, err := p.Pool.Sync(ctx, r)
	time.Sleep(p.store.RTT - p.store.RTT/2)
	if rand.Float64() < p.store.Lost {
		return lost(ctx)
	}
	return g, err
}

func lost(ctx context.Context) (retrybudget.PoolGrant, error) {
	<-ctx.Done()
	return retrybudget.PoolGrant{}, context.Cause(ctx)
}
