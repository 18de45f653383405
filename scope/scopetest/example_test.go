package scopetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/scopetest"
)

// A printT is what stands for a *testing.T here, since an example has none: it
// prints its failures.
type printT struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
}

func newT() (t *printT, end func()) {
	ctx, cancel := context.WithCancel(scope.WithTrace(context.Background(), &quiet))
	t = &printT{ctx: ctx}
	return t, func() {
		cancel()
		for _, f := range t.cleanups {
			f()
		}
	}
}

func (t *printT) Helper()                  {}
func (t *printT) Name() string             { return "TestPage" }
func (t *printT) Context() context.Context { return t.ctx }
func (t *printT) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }

func (t *printT) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, varies := range []string{" (", ", injected at"} { // state, age and lines differ each time
		text, _, _ = strings.Cut(text, varies)
	}
	fmt.Println("FAIL:", text)
}

// page is the code under test: it needs a price and can do without a review.
func page(ctx context.Context) (string, error) {
	return scope.RunValue(ctx, "page", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) (string, error) {
		s.Cleanup("unlock", func(context.Context) error { return nil })
		price := scope.Fork(s, "price", func(context.Context) (string, error) { return "7", nil })
		review := scope.Fork(s.Optional(budget.Within(500*time.Millisecond)), "review", func(context.Context) (string, error) {
			return "good", nil
		})
		if err := s.Wait(); err != nil {
			return "", err
		}
		return price.Value() + ", " + review.Or("no review"), nil
	})
}

func ExampleContext() {
	t, end := newT()
	ctx := scopetest.Context(t, scopetest.Grace(50*time.Millisecond))
	text, err := page(ctx)
	fmt.Println(text, err)

	// This one goes on after the test.
	release, running := make(chan struct{}), make(chan struct{})
	go func() {
		_ = scope.Run(ctx, "refresh", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
			s.Go("prices", func(context.Context) error { close(running); <-release; return nil })
			return nil
		})
	}()
	<-running
	end()
	close(release)
	// Output:
	// 7, good <nil>
	// FAIL: scopetest: refresh/prices still runs
}

func ExampleGrace() {
	t, end := newT()
	ctx := scopetest.Context(t, scopetest.Grace(time.Minute))
	go func() {
		_ = scope.Run(ctx, "refresh", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
			<-ctx.Done()
			<-time.After(10 * time.Millisecond) // it takes a moment to stop
			return nil
		})
	}()
	end()
	fmt.Println("ended in time")
	// Output: ended in time
}

func ExampleAllowOrphan() {
	t, end := newT()
	ctx := scopetest.Context(t, scopetest.Grace(0), scopetest.AllowOrphan("page/legacy"))
	release := make(chan struct{})
	err := scope.Run(ctx, "page", budget.Within(100*time.Millisecond), func(_ context.Context, s *scope.Scope) error {
		s.SetStragglers(10*time.Millisecond, scope.Abandon)
		s.Go("legacy", func(context.Context) error { <-release; return nil }) // a call that takes no context
		return nil
	})
	fmt.Println(errors.Is(err, scope.ErrAbandoned))
	end()
	close(release)
	// Output: true
}

func ExampleRoot() {
	t, end := newT()
	ctx := scopetest.Context(t)
	root := scopetest.Root(ctx, "app")
	err := root.Serve("refresh", func(ctx context.Context) error {
		<-scope.Stopping(ctx)
		fmt.Println("stopped")
		return nil
	})
	fmt.Println(err)
	fmt.Println(root.Drain(ctx))
	end()
	// Output:
	// <nil>
	// stopped
	// <nil>
}

func ExampleInject() {
	t, end := newT()
	ctx := scopetest.Context(t)
	scopetest.Inject(ctx,
		scopetest.At("page/review", scopetest.Start).Delay(time.Minute),   // longer than its limit
		scopetest.At("page/pirce", scopetest.Start).Fail(errors.New("x")), // a slip of the pen
	)
	fmt.Println(page(ctx))
	end()
	// Output:
	// 7, no review <nil>
	// FAIL: scopetest: nothing met the fault At("page/pirce", Start).Fail("x")
}

func ExamplePlace_Fail() {
	t, end := newT()
	defer end()
	ctx := scopetest.Context(t)
	errDown := errors.New("price service is down")
	scopetest.Inject(ctx, scopetest.At("page/price", scopetest.Join).Fail(errDown))
	_, err := page(ctx)
	fmt.Println(err)
	fmt.Println(errors.Is(err, errDown))
	// Output:
	// scope: page: task "price": price service is down
	// true
}

func ExamplePlace_Panic() {
	t, end := newT()
	defer end()
	ctx := scopetest.Context(t)
	scopetest.Inject(ctx, scopetest.At("page/price", scopetest.Start).Panic("boom"))
	defer func() {
		pe := recover().(*scope.PanicError)
		fmt.Println(pe.Task, pe.Value)
	}()
	_, _ = page(ctx)
	// Output: page/price boom
}

func ExamplePlace_Goexit() {
	t, end := newT()
	defer end()
	ctx := scopetest.Context(t)
	scopetest.Inject(ctx, scopetest.At("page/price", scopetest.Start).Goexit())
	_, err := page(ctx)
	fmt.Println(err)
	// Output: scope: page: task "price": scope: task called runtime.Goexit
}

func ExamplePlace_Deaf() {
	t, end := newT()
	defer end()
	ctx := scopetest.Context(t)
	scopetest.Inject(ctx, scopetest.At("page/review", scopetest.Start).Deaf(100*time.Millisecond))
	began := time.Now()
	fmt.Println(page(ctx))
	fmt.Println("waited for it:", time.Since(began) >= 100*time.Millisecond)
	// Output:
	// 7, good <nil>
	// waited for it: true
}

func ExampleFault_Times() {
	t, end := newT()
	defer end()
	ctx := scopetest.Context(t)
	fault := scopetest.At("page/price", scopetest.Start).Fail(errors.New("down")).Times(1)
	scopetest.Inject(ctx, fault)
	_, first := page(ctx)
	_, second := page(ctx)
	fmt.Println(first)
	fmt.Println(second)
	fmt.Println(fault.Hits(), fault)
	// Output:
	// scope: page: task "price": down
	// <nil>
	// 1 At("page/price", Start).Fail("down").Times(1)
}
