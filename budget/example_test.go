package budget_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// One deadline at the edge; whoever is called gets what is left of it, and the
// cause names the limit that ran out.
func ExampleEnter() {
	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(2*time.Second).Named("route maximum"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cancel()

	query, cancelQuery, err := budget.Enter(ctx, budget.Within(20*time.Millisecond).Named("query"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cancelQuery()

	<-query.Done() // as a slow database would
	fmt.Println(context.Cause(query))
	fmt.Println(errors.Is(context.Cause(query), context.DeadlineExceeded), ctx.Err())
	// Output:
	// budget: deadline exceeded: limit query 20ms < route maximum 2s
	// true <nil>
}

// A request that has run out of time is refused before any work.
func ExampleEnter_refused() {
	for _, left := range []time.Duration{0, 12 * time.Millisecond, 80 * time.Millisecond} {
		limit := budget.Within(left).Named("peer header").Require(30 * time.Millisecond)
		_, cancel, err := budget.Enter(context.Background(), limit)
		defer cancel()
		fmt.Println(budget.KindOf(err), err)
	}
	// Output:
	// expired_on_arrival budget: expired on arrival: limit peer header 0s
	// local_budget_rejected budget: local budget rejected: limit peer header 12ms
	// none <nil>
}

// The work ends early enough for its caller to make use of what came back.
func ExampleLimit_Reserve() {
	request, cancel, _ := budget.Enter(context.Background(), budget.Within(10*time.Second))
	defer cancel()

	work, cancel, err := budget.Enter(request, budget.Inherited().Reserve(2*time.Second).Cleanup(time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cancel()

	end, _ := request.Deadline()
	workEnd, _ := work.Deadline()
	fmt.Println("kept for rendering and cleanups:", end.Sub(workEnd))
	// Output:
	// kept for rendering and cleanups: 3s
}

// A limit that operators widen in an incident, without a redeploy: by a flag at the
// start, and by whatever calls Set later. What it was stays in sight.
func ExampleVar() {
	routeMax := budget.NewVar("route maximum", 2*time.Second, 100*time.Millisecond, 30*time.Second)
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.Var(routeMax, "route-max", "the most time a request may take")
	limit := routeMax.Limit() // built once, read whenever work is entered

	if err := flags.Parse([]string{"-route-max=5s"}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(limit)
	fmt.Println(routeMax.Set("10m"))
	fmt.Println(routeMax)
	// Output:
	// route maximum 5s (was 2s)
	// budget: route maximum: 10m0s is not between 100ms and 30s
	// 5s
}

// What a peer asks for never widens a limit, and a cause says whose of both it was.
func ExampleLimit_AtMost() {
	route := budget.Within(2 * time.Second).Named("route maximum")
	for _, asked := range []time.Duration{300 * time.Millisecond, time.Hour} {
		fmt.Println(route.AtMost(asked, "peer header"))
	}
	// Output:
	// peer header 300ms < route maximum 2s
	// route maximum 2s
}

// A job that stood in a queue has the less time left for its work.
func ExampleLimit_Spent() {
	queued := time.Now().Add(-3 * time.Second)
	limit := budget.Within(2 * time.Second).Named("job").Spent(time.Since(queued).Truncate(time.Second))
	_, cancel, err := budget.Enter(context.Background(), limit)
	defer cancel()
	fmt.Println(err)
	// Output:
	// budget: expired on arrival: limit job 2s (3s spent)
}

// One classification for every error, and what it means to a client.
func ExampleKindOf() {
	for _, err := range []error{
		nil,
		errors.New("no such order"),
		fmt.Errorf("load profile: %w", context.DeadlineExceeded),
		&budget.Cause{Kind: budget.SiblingFailed, Task: "payment", Err: context.DeadlineExceeded},
		&budget.Cause{Kind: budget.LocalBudgetRejected},
	} {
		kind := budget.KindOf(err)
		fmt.Println(kind, kind.HTTPStatus(), kind.Retry() == budget.RetryFresh)
	}
	// Output:
	// none 200 false
	// failed 500 false
	// deadline_exceeded 504 false
	// sibling_failed 500 false
	// local_budget_rejected 503 true
}

// Work that must be finished although the request is over: bounded, and with
// the request's values.
func ExampleDetached() {
	type user struct{}
	request, cancelRequest, _ := budget.Enter(context.WithValue(context.Background(), user{}, "ann"), budget.Within(time.Minute))
	cancelRequest() // the client has gone

	ctx, cancel := budget.Detached(request, 500*time.Millisecond)
	defer cancel()
	rollback := func(ctx context.Context) error { return ctx.Err() }

	fmt.Println("rollback for", ctx.Value(user{}), "-", rollback(ctx))
	fmt.Println("with the request's own context:", rollback(request))
	// Output:
	// rollback for ann - <nil>
	// with the request's own context: context canceled
}

// The check before a side effect: either there is time for it, or it does not
// begin.
func ExampleRequire() {
	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(5*time.Second).Named("route maximum"))
	defer cancel()

	if err := budget.Require(ctx, 20*time.Millisecond); err == nil {
		fmt.Println("charge the card")
	}
	if err := budget.Require(ctx, time.Minute); err != nil {
		fmt.Println("no mail:", err)
	}
	// Output:
	// charge the card
	// no mail: budget: local budget rejected: limit route maximum 5s
}

func ExampleRemaining() {
	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Minute))
	defer cancel()

	if left, ok := budget.Remaining(ctx); ok && left > 30*time.Second {
		fmt.Println("time for the thorough search")
	}
	_, ok := budget.Remaining(context.Background())
	fmt.Println("a deadline in main:", ok)
	// Output:
	// time for the thorough search
	// a deadline in main: false
}
