package pooltest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// A simulation gives the time itself. A new pool lends nothing at first.
func ExampleMemory() {
	now := time.Unix(0, 0)
	pool := &pooltest.Memory{Now: func() time.Time { return now }}
	ask := retrybudget.PoolRequest{Target: "payments", Member: "a", PerSecond: 1_000_000, Burst: 5_000_000, Want: 9_000_000}
	for range 3 {
		ask.Seq++
		grant, err := pool.Sync(context.Background(), ask)
		fmt.Println(grant.Granted/1_000_000, err)
		now = now.Add(2 * time.Second)
	}
	// Output:
	// 0 <nil>
	// 0 <nil>
	// 2 <nil>
}
