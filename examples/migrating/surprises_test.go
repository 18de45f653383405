package migrating

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

var errSoldOut = errors.New("sold out")

func soldOut(context.Context) error { return errSoldOut }

func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// inPage is scope.Run with what all of these have in common.
func inPage(body func(context.Context, *scope.Scope) error) error {
	return scope.Run(context.Background(), "page", budget.Within(time.Minute), body)
}

func Example_errorsAreWrapped() {
	err := inPage(func(_ context.Context, s *scope.Scope) error {
		s.Go("price", soldOut)
		return nil
	})
	fmt.Println(err == errSoldOut, errors.Is(err, errSoldOut))
	fmt.Println(err)
	// Output:
	// false true
	// scope: page: task "price": sold out
}

func Example_aSiblingsCancelIsNoErrorOfMine() {
	err := inPage(func(_ context.Context, s *scope.Scope) error {
		s.Go("stock", untilCancelled)
		s.Go("price", soldOut)
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled), budget.KindOf(err))
	// Output: false failed
}

func Example_aFailedScopeSkipsTasks() {
	err := inPage(func(ctx context.Context, s *scope.Scope) error {
		s.Go("price", soldOut)
		<-ctx.Done()
		s.Go("stock", func(context.Context) error { fmt.Println("never printed"); return nil })
		fmt.Println("skipped:", s.Stats().Skipped)
		return nil
	})
	fmt.Println(err)
	// Output:
	// skipped: 1
	// scope: page: task "price": sold out; not begun: 1
}

func Example_aNilBodyDoesNotCancel() {
	err := inPage(func(_ context.Context, s *scope.Scope) error {
		s.Go("price", func(context.Context) error { fmt.Println("ran to its end"); return nil })
		return nil // waits; return an error, or call s.Cancel, to stop what runs
	})
	fmt.Println(err)
	// Output:
	// ran to its end
	// <nil>
}

func Example_goReturnsNoError() {
	err := inPage(func(ctx context.Context, s *scope.Scope) error {
		s.Cancel(errSoldOut)
		task := scope.Fork(s, "price", func(context.Context) (int, error) { return 7, nil })
		_, err := task.Wait(ctx) // the task itself says that it was skipped, and why
		fmt.Println(budget.KindOf(err))
		return nil
	})
	fmt.Println(errors.Is(err, errSoldOut))
	// Output:
	// cancelled
	// true
}

func Example_aNilFromATaskMeansDone() {
	done := func(ctx context.Context) error { <-ctx.Done(); return nil }
	err := scope.Run(context.Background(), "page", budget.Within(time.Millisecond), func(_ context.Context, s *scope.Scope) error {
		s.Go("loop", done)
		return nil
	})
	fmt.Println(err)
	err = scope.Run(context.Background(), "page", budget.Within(time.Millisecond), func(_ context.Context, s *scope.Scope) error {
		s.Go("loop", untilCancelled)
		return nil
	})
	fmt.Println(budget.KindOf(err))
	// Output:
	// <nil>
	// deadline_exceeded
}

func Example_aCaughtErrorDoesNotUnfail() {
	err := inPage(func(_ context.Context, s *scope.Scope) error {
		s.Go("price", soldOut)
		if err := s.Wait(); err != nil {
			return nil // no use: the scope has failed
		}
		return nil
	})
	fmt.Println(err)
	// Output: scope: page: task "price": sold out
}

func Example_aPanicComesBackFromRun() {
	defer func() {
		pe := recover().(*scope.PanicError)
		fmt.Println(pe.Task, pe.Value, len(pe.Stack) > 0)
	}()
	_ = scope.Run(quiet(), "page", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
		s.Go("price", func(context.Context) error { panic("boom") })
		return nil
	})
	// Output: page/price boom true
}

func Example_theDeadlineIsNotOptional() {
	each := func(ctx context.Context) error {
		return scope.Each(ctx, "refresh", 8, []string{"lamp"}, func(context.Context, string) error { return nil })
	}
	fmt.Println(errors.Is(each(context.Background()), budget.ErrNoDeadline))

	ctx, cancel, err := budget.Enter(context.Background(), budget.Within(time.Minute))
	defer cancel()
	fmt.Println(err, each(ctx))
	// Output:
	// true
	// <nil> <nil>
}

func Example_aValueNeedsAWait() {
	_ = inPage(func(_ context.Context, s *scope.Scope) error {
		price := scope.Fork(s, "price", func(context.Context) (int, error) { return 7, nil })
		defer func() { fmt.Println(recover() != nil) }()
		fmt.Println(price.Value()) // however fast the task is
		return nil
	})
	// Output: true
}

func Example_theContextIsTheParameter() {
	outer := context.Background()
	_ = inPage(func(_ context.Context, s *scope.Scope) error {
		s.Go("stock", func(ctx context.Context) error {
			<-ctx.Done()
			fmt.Println("cancelled:", ctx.Err() != nil, "the one from outside:", outer.Err() != nil)
			return context.Cause(ctx)
		})
		s.Go("price", soldOut)
		return nil
	})
	// Output: cancelled: true the one from outside: false
}

// quiet takes the report of a panic, which goes to the log otherwise.
func quiet() context.Context {
	return scope.WithTrace(context.Background(), &scope.Trace{TaskPanicked: func(*scope.PanicError) {}})
}
