package scope_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// The forms of one call take the deadline that ctx has: an edge, such as the
// handler of curfewhttp, has set it.
func edge() (context.Context, context.CancelFunc) {
	ctx, cancel, _ := budget.Enter(context.Background(), budget.Within(time.Minute))
	return ctx, cancel
}

func ExampleAll() {
	ctx, cancel := edge()
	defer cancel()
	prices, err := scope.All(ctx, "prices",
		func(context.Context) (int, error) { return 12, nil },
		func(context.Context) (int, error) { return 30, nil })
	fmt.Println(prices, err)
	// Output: [12 30] <nil>
}

func ExampleMap() {
	ctx, cancel := edge()
	defer cancel()
	lengths, err := scope.Map(ctx, "lengths", 2, []string{"a", "bb", "ccc"}, func(_ context.Context, s string) (int, error) {
		return len(s), nil
	})
	fmt.Println(lengths, err)
	// Output: [1 2 3] <nil>
}

func ExampleEach() {
	ctx, cancel := edge()
	defer cancel()
	err := scope.Each(ctx, "import", 8, []string{"a.csv", "b.csv"}, func(_ context.Context, file string) error {
		if file == "b.csv" {
			return errors.New("not a CSV file")
		}
		return nil
	})
	fmt.Println(err)
	// Output: scope: import: task "1": not a CSV file
}

func ExampleMapSeq() {
	ctx, cancel := edge()
	defer cancel()
	lines := slices.Values([]string{"1", "2", "x", "4"})
	for n, err := range scope.MapSeq(ctx, "parse", 1, lines, func(_ context.Context, line string) (n int, err error) {
		_, err = fmt.Sscan(line, &n)
		return n, err
	}) {
		var failed *scope.TaskError // err says as well who was cut short by it
		if errors.As(err, &failed) {
			fmt.Println("stopped:", failed.Err)
			break
		}
		fmt.Println(n)
	}
	// Output:
	// 1
	// 2
	// stopped: expected integer
}

func ExampleScope_Optional() {
	page, err := scope.RunValue(context.Background(), "page", budget.Within(time.Minute),
		func(_ context.Context, s *scope.Scope) (string, error) {
			name := scope.Fork(s, "name", func(context.Context) (string, error) { return "lamp", nil })
			also := scope.Fork(s.Optional(budget.Within(time.Millisecond)), "recommendations", func(ctx context.Context) (string, error) {
				<-ctx.Done() // too slow
				return "", context.Cause(ctx)
			})
			if err := s.Wait(); err != nil {
				return "", err
			}
			for _, m := range s.Missing() {
				fmt.Println("without", m.Task, "because of", budget.KindOf(m.Err))
			}
			return name.Value() + also.Or(", and nothing else"), nil
		})
	fmt.Println(page, err)
	// Output:
	// without recommendations because of deadline_exceeded
	// lamp, and nothing else <nil>
}

func ExampleStart() {
	err := scope.Run(context.Background(), "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		// The log writer is there before anybody needs it, and until nobody does.
		log, err := scope.Start(s.Service(), "log", func(ctx context.Context, ready func(chan<- string)) error {
			lines := make(chan string) // without a buffer: what was sent was printed
			ready(lines)
			for {
				select {
				case line := <-lines:
					fmt.Println(line)
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
		if err != nil {
			return err
		}
		s.Go("work", func(context.Context) error { log <- "working"; return nil })
		return nil
	})
	fmt.Println(err)
	// Output:
	// working
	// <nil>
}

func ExampleScope_SetSlots() {
	err := scope.Run(context.Background(), "crawl", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		s.SetSlots(4) // for all that is below, too
		for i := range 10 {
			s.Go(fmt.Sprint("site-", i), func(ctx context.Context) error {
				return scope.Each(ctx, "pages", 8, make([]string, 20), func(context.Context, string) error { return nil })
			})
		}
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleScope_SetKeepGoing() {
	err := scope.Run(context.Background(), "notify", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		s.SetKeepGoing()
		for _, to := range []string{"ann", "bob", "cid"} {
			s.Go(to, func(context.Context) error {
				if to == "bob" {
					return errors.New("mailbox full")
				}
				return nil
			})
		}
		return nil
	})
	fmt.Println(err)
	// Output: scope: notify: task "bob": mailbox full
}

func ExampleScope_SetStragglers() {
	ctx := scope.WithTrace(context.Background(), &scope.Trace{Straggler: func(g scope.Straggler) {
		fmt.Println("still running:", g.Scope, g.Task)
	}})
	release := make(chan struct{})
	err := scope.Run(ctx, "shop", budget.Within(time.Millisecond), func(_ context.Context, s *scope.Scope) error {
		s.SetStragglers(time.Millisecond, scope.Abandon)
		s.Go("cgo call", func(context.Context) error { <-release; return nil })
		return s.Wait()
	})
	fmt.Println(errors.Is(err, scope.ErrAbandoned), budget.KindOf(err))
	close(release)
	// Output:
	// still running: shop cgo call
	// true deadline_exceeded
}

func ExampleScope_Restart() {
	tries := 0
	err := scope.Run(context.Background(), "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		quiet := scope.Backoff{First: time.Microsecond, Max: time.Millisecond}
		s.Restart(quiet).Go("subscription", func(context.Context) error {
			if tries++; tries < 3 {
				return errors.New("connection reset")
			}
			return nil
		})
		return nil
	})
	fmt.Println(tries, err)
	// Output: 3 <nil>
}
