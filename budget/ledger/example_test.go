package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
)

// charge is code far below the handler: it knows the context only.
func charge(ctx context.Context) error {
	left, _ := budget.Remaining(ctx)
	call := ledger.From(ctx).Call("payment", left)
	defer func() { call.Done(nil) }()
	call.Stage(ledger.PoolWait, 2*time.Millisecond)
	return nil
}

// A handler opens the account, everything below adds to it, and one line says
// where the time went.
func Example() {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(850*time.Millisecond).Named("route maximum"))
	defer cancel()
	ctx, account := ledger.New(ctx, "checkout")
	account.Stage(ledger.Queue, 3*time.Millisecond)
	if err == nil {
		err = charge(ctx)
	}
	account.Close(err)

	line := account.String() // such as "checkout: ok in 41ms of 850ms, local 1ms, queue 3ms; payment ok in 40ms of 849ms, pool_wait 2ms"
	fmt.Println(strings.HasPrefix(line, "checkout: ok in "), strings.HasSuffix(line, ", pool_wait 2ms"))
	// Output: true true
}

// A refused request has an account as well.
func ExampleLedger_Close() {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(0).Named("peer header"))
	defer cancel()
	_, account := ledger.New(ctx, "checkout")
	account.Close(err)
	r := account.Report()
	fmt.Println(r.Outcome, "by", r.LimitedBy)
	// Output: expired_on_arrival by peer header 0s
}

// As slog attributes, and as a header. These are of a report made by hand, so
// that the figures are the same each time.
func ExampleReport() {
	r := ledger.Report{
		Hop: "checkout", Outcome: "ok", HasDeadline: true, RemainingIn: 850 * time.Millisecond,
		Total: 41 * time.Millisecond, Local: time.Millisecond,
		Calls: []ledger.CallReport{{Target: "payment", Outcome: "ok", RemainingOut: 800 * time.Millisecond, Took: 40 * time.Millisecond}},
	}
	r.Stages[ledger.Queue] = 3 * time.Millisecond
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}}))
	log.Info("request", "curfew", r)
	fmt.Println("Server-Timing:", r.ServerTiming())
	// Output:
	// level=INFO msg=request curfew.hop=checkout curfew.total_ms=41 curfew.deadline.outcome=ok curfew.deadline.local_ms=1 curfew.deadline.remaining_in_ms=850 curfew.queue_ms=3 curfew.call_1.target=payment curfew.call_1.outcome=ok curfew.call_1.took_ms=40 curfew.call_1.deadline.remaining_out_ms=800
	// Server-Timing: total;desc="checkout";dur=41, remaining_in;dur=850, local;dur=1, queue;dur=3, call;desc="payment";dur=40, outcome;desc="ok"
}
