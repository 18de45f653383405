package plan_test

import (
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget/plan"
	"github.com/curfew-go/curfew/budget/wire"
)

// An objective of one second, shared out. The limits are for the work of each
// call; a test that holds the tree fails when somebody makes it too small.
func ExampleFit() {
	tree := plan.Call{
		Name: "client", Timeout: time.Second, Own: 150 * time.Millisecond,
		Calls: []plan.Call{{
			Name: "gateway", Timeout: 850 * time.Millisecond, Own: 30 * time.Millisecond, Reserve: 50 * time.Millisecond, Parallel: true,
			Calls: []plan.Call{
				{Name: "auth", Timeout: 50 * time.Millisecond, Attempts: 2},
				{Name: "product", Timeout: 400 * time.Millisecond, Calls: []plan.Call{
					{Name: "database", Timeout: 250 * time.Millisecond, Floor: 20 * time.Millisecond},
					{Name: "cache", Timeout: 10 * time.Millisecond, Local: true},
				}},
				{Name: "recommendations", Timeout: 200 * time.Millisecond, Optional: true},
			},
		}},
	}
	p, err := plan.Fit(tree, wire.Slush{}.Of)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(p)
	fmt.Println("limit", p.Limit("client/gateway/product"), "for an attempt of", p.Timeout("client/gateway/product"))
	fmt.Println("slush by level", p.Slush())

	tree.Calls[0].Calls[1].Calls[0].Attempts = 2 // the database is tried twice now
	_, err = plan.Fit(tree, wire.Slush{}.Of)
	fmt.Println(err)
	// Output:
	// client               1s        own 150ms
	// └ gateway            850ms     slush 42.5ms, own 30ms, reserve 50ms, spare 327.5ms, parallel
	//   ├ auth             50ms × 2  slush 2.5ms
	//   ├ product          400ms     slush 20ms, spare 120ms
	//   │ ├ database       250ms     slush 12.5ms, floor 20ms
	//   │ └ cache          10ms
	//   └ recommendations  200ms     slush 10ms, optional
	// limit product 400ms for an attempt of 400ms
	// slush by level [0s 42.5ms 20ms 12.5ms]
	// plan: client/gateway/product does not fit by 130ms: slush 20ms + database 2 × 250ms + cache 10ms = 530ms of 400ms
}

// Timeouts and retries that each team set for itself.
var incident = plan.Call{Name: "gateway", Calls: []plan.Call{
	{Name: "order", Timeout: 10 * time.Second, Attempts: 3, Calls: []plan.Call{
		{Name: "inventory", Timeout: 5 * time.Second, Attempts: 4, Calls: []plan.Call{
			{Name: "warehouse", Timeout: 3 * time.Second, Attempts: 4},
		}},
	}},
}}

// What they come to when the warehouse is slow.
func ExampleWorstCase() {
	for _, w := range plan.WorstCase(incident)[1:] {
		fmt.Printf("%-35s %2d calls, its caller waits %v, work goes on for %v\n", w.Path, w.Calls, w.Waits, w.Runs)
	}
	// Output:
	// gateway/order                        3 calls, its caller waits 30s, work goes on for 2m24s
	// gateway/order/inventory             12 calls, its caller waits 20s, work goes on for 48s
	// gateway/order/inventory/warehouse   48 calls, its caller waits 12s, work goes on for 12s
}

// And what is wrong with them.
func ExampleCheck() {
	for _, f := range plan.Check(incident) {
		fmt.Println(f)
	}
	// Output:
	// gateway/order/inventory: 4 attempts of 5s outlive their caller, which gives up after 10s
	// gateway/order/inventory/warehouse: 4 attempts of 3s outlive their caller, which gives up after 5s
}

// One request in twenty hits a dead backend behind a deadline of 100 s. The
// thousand workers are enough for ten times the healthy traffic.
func ExampleInFlight() {
	healthy := plan.InFlight(950, 100*time.Millisecond)
	dead := plan.InFlight(50, 100*time.Second)
	fmt.Printf("%.0f + %.0f in flight, %.1f%% served\n", healthy, dead, 100*1000/(healthy+dead))
	// Output:
	// 95 + 5000 in flight, 19.6% served
}
