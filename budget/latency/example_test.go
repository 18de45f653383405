package latency_test

import (
	"context"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/latency"
)

// A client that measures what it calls, and takes its limits from that. Until
// there is enough to tell, the timeout is the Initial one and there is no hedge.
func Example() {
	inventory := latency.New(latency.Config{FalseTimeouts: 0.001, Initial: 300 * time.Millisecond})

	call := func(ctx context.Context, do func(context.Context) error) error {
		limit := budget.Within(inventory.Timeout()).Named("inventory timeout").Require(inventory.Typical())
		ctx, cancel, err := budget.Enter(ctx, limit)
		if err != nil {
			return err // too little is left for a typical answer: nothing was sent
		}
		defer cancel()
		start := time.Now()
		err = do(ctx)
		inventory.Record(time.Since(start), err)
		return err
	}
	err := call(context.Background(), func(ctx context.Context) error {
		left, _ := budget.Remaining(ctx)
		fmt.Println("first call within", left.Round(10*time.Millisecond))
		return nil
	})
	fmt.Println(err, inventory.HedgeDelay() == latency.Never)
	// Output:
	// first call within 300ms
	// <nil> true
}

// The answers, after ten thousand calls of 1 to 100 ms. A tenth of them would
// have taken longer than the 90 ms after which they were cut off.
func ExampleObserved() {
	seen := latency.New(latency.Config{FalseTimeouts: 0.2, HedgeAt: 0.75})
	for i := range 10_000 {
		switch took := time.Duration(i%100+1) * time.Millisecond; {
		case took <= 90*time.Millisecond:
			seen.Record(took, nil)
		default:
			seen.Record(90*time.Millisecond, context.DeadlineExceeded)
		}
	}
	fmt.Println("typical", seen.Typical().Round(time.Millisecond))
	fmt.Println("hedge after", seen.HedgeDelay().Round(time.Millisecond))
	fmt.Println("timeout", seen.Timeout().Round(time.Millisecond))
	fmt.Println(seen.FalseTimeouts())
	seen.CutOff(12 * time.Millisecond) // by the caller's own deadline, which came before the timeout
	p95, ok := seen.Quantile(0.95)
	fmt.Println("p95 is beyond", p95.Round(time.Millisecond), ok)
	fmt.Println(seen.Snapshot())
	// Output:
	// typical 50ms
	// hedge after 75ms
	// timeout 80ms
	// 0.2 0.1
	// p95 is beyond 90ms false
	// 9000 answered, 1001 cut off, 1000 timed out (10%), 0 left out, p50 51.1ms, p99 over 89.7ms, p99.9 over 89.7ms
}

// Processes exchange what they have seen, in any way that carries bytes.
func ExampleObserved_SetPeers() {
	here, there := latency.New(latency.Config{}), latency.New(latency.Config{})
	for range 1000 {
		there.Record(40*time.Millisecond, nil)
	}

	sent, _ := there.Snapshot().MarshalBinary()

	var received latency.Snapshot
	if err := received.UnmarshalBinary(sent); err != nil {
		fmt.Println(err)
		return
	}
	here.SetPeers(&received)
	fmt.Println(here.Typical().Round(time.Millisecond), len(sent), "bytes")

	all := here.Snapshot() // or added up, for a report
	all.Add(&received)
	fmt.Printf("%+v %v\n", all.Stats(), all.FalseTimeouts())
	fmt.Println(received.UnmarshalBinary(sent[:3]), received.UnmarshalBinary([]byte{9}))
	// Output:
	// 40ms 8 bytes
	// {Answered:1000 CutOff:0 TimedOut:0 LeftOut:0} 0
	// <nil> latency: malformed snapshot: unknown version
}
