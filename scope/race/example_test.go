package race_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// soon is a context with a deadline, as a handler has one.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// answer returns an attempt that succeeds at once.
func answer(s string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, nil }
}

// stuck is an attempt that waits until it is cancelled.
func stuck(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// broken returns an attempt that fails at once.
func broken(why string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", errors.New(why) }
}

func ExampleFirst() {
	ctx, cancel := soon()
	defer cancel()
	v, err := race.First(ctx, "mirror", broken("no route"), answer("page"), stuck)
	fmt.Println(v, err)

	_, err = race.First(ctx, "mirror", broken("no route"))
	fmt.Println(err)
	// Output:
	// page <nil>
	// race: mirror: its only attempt failed: task "mirror/0": no route
}

func ExampleQuorum() {
	ctx, cancel := soon()
	defer cancel()
	replicas := []func(context.Context) (string, error){answer("v7"), stuck, answer("v7")}
	versions, err := race.Quorum(ctx, "read", 2, replicas...)
	fmt.Println(versions, err)
	// Output: [v7 v7] <nil>
}

// A service hedges what is slow, not everything: it waits as long as most calls
// take, and no more than a share of them may be hedged.
func ExampleConfig_Hedge() {
	var tokens atomic.Int64
	tokens.Store(3)
	reads := race.Config[string]{
		Limit:    budget.Within(200 * time.Millisecond).Named("read"),
		After:    func() time.Duration { return 0 }, // an observed quantile, such as p95
		Gate:     gate(func() bool { return tokens.Add(-1) >= 0 }),
		Terminal: func(err error) bool { return errors.Is(err, io.EOF) },
	}
	v, err := reads.Hedge(context.Background(), "read", func(ctx context.Context) (string, error) {
		if race.Attempt(ctx) == 0 {
			return stuck(ctx) // this one is slow today
		}
		return "from the hedge", nil
	})
	fmt.Println(v, err, "tokens left:", tokens.Load())
	// Output: from the hedge <nil> tokens left: 2
}

// gate makes a race.Gate of a function.
type gate func() bool

func (g gate) TryTake() bool { return g() }

// Losers belong to the scope, which has them all back when it returns.
func ExampleHedge() {
	err := scope.Run(context.Background(), "request", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		v, err := race.Hedge(ctx, "user", 0, func(ctx context.Context) (string, error) {
			if race.Attempt(ctx) == 0 {
				return stuck(ctx)
			}
			return "ada", nil
		})
		fmt.Println(v, err)
		return err
	})
	fmt.Println(err)
	// Output:
	// ada <nil>
	// <nil>
}

// A reader goes on using the context of the attempt that brought it.
func ExampleKeep() {
	ctx, cancel := soon()
	defer cancel()
	open := func(ctx context.Context) (io.ReadCloser, error) {
		release := race.Keep(ctx)
		return &body{Reader: strings.NewReader("hello"), ctx: ctx, release: release}, nil
	}
	r, err := race.Config[io.ReadCloser]{
		Dispose: func(r io.ReadCloser) { r.Close() },
	}.First(ctx, "download", open, open)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	fmt.Printf("%s %v\n", text, err)
	// Output: hello <nil>
}

// A body can be read as long as ctx has not ended.
type body struct {
	io.Reader
	ctx     context.Context
	release func()
}

func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	return b.Reader.Read(p)
}

func (b *body) Close() error {
	b.release()
	return nil
}

func ExampleAttempt() {
	ctx, cancel := soon()
	defer cancel()
	fmt.Println(race.Attempt(ctx))
	v, err := race.First(ctx, "a", func(ctx context.Context) (int, error) { return race.Attempt(ctx), nil })
	fmt.Println(v, err)
	// Output:
	// -1
	// 0 <nil>
}

func ExampleError() {
	ctx, cancel := soon()
	defer cancel()
	_, err := race.Quorum(ctx, "write", 2, broken("disk full"), answer("ok"), broken("read-only"))
	var failed *race.Error
	fmt.Println(errors.As(err, &failed), len(failed.Failures), budget.KindOf(err))
	// Output: true 2 failed
}

// any(all(a, b), c): both parts, or else the copy.
func Example_anyOfAll() {
	ctx, cancel := soon()
	defer cancel()
	both := func(ctx context.Context) (string, error) {
		parts, err := scope.All(ctx, "parts", stuck, broken("no price"))
		return strings.Join(parts, " "), err
	}
	page, err := race.First(ctx, "page", both, answer("the copy"))
	fmt.Println(page, err)
	// Output: the copy <nil>
}

// A failure strategy of one's own: give up after so many timeouts, whatever else
// fails.
func Example_cancelAfterTimeouts() {
	ctx, cancel := soon()
	defer cancel()
	var timeouts atomic.Int64
	cfg := race.Config[string]{Terminal: func(err error) bool {
		return errors.Is(err, context.DeadlineExceeded) && timeouts.Add(1) >= 2
	}}
	slow := func(context.Context) (string, error) { return "", context.DeadlineExceeded }
	_, err := cfg.First(ctx, "mirror", slow, broken("no route"), slow, stuck)
	fmt.Println(budget.KindOf(err), errors.Is(err, context.DeadlineExceeded), timeouts.Load())
	// Output: deadline_exceeded true 2
}

// Two hedges over a quorum of three: each try is a whole quorum.
func Example_hedgeOverQuorum() {
	ctx, cancel := soon()
	defer cancel()
	read := func(ctx context.Context) ([]string, error) {
		if race.Attempt(ctx) == 0 {
			return race.Quorum(ctx, "near", 2, stuck, stuck, answer("v7"))
		}
		return race.Quorum(ctx, "far", 2, answer("v8"), answer("v8"), stuck)
	}
	versions, err := race.Hedge(ctx, "read", time.Millisecond, read)
	fmt.Println(slices.Max(versions), err)
	// Output: v8 <nil>
}
