package scope_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

func ExampleRun() {
	err := scope.Run(context.Background(), "checkout", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
		s.Cleanup("unlock", func(context.Context) error { fmt.Println("unlocked"); return nil })
		s.Go("payment", func(context.Context) error { return errors.New("card declined") })
		s.Go("shipping", func(ctx context.Context) error {
			<-ctx.Done() // cancelled, because payment failed
			return context.Cause(ctx)
		})
		return s.Wait()
	})
	fmt.Println(budget.KindOf(err))
	// Output:
	// unlocked
	// failed
}

func ExampleRunValue() {
	page, err := scope.RunValue(context.Background(), "page", budget.Within(time.Minute),
		func(ctx context.Context, s *scope.Scope) (string, error) {
			name := scope.Fork(s, "name", func(context.Context) (string, error) { return "lamp", nil })
			stock := scope.Fork(s.Limit(budget.Within(time.Second)), "stock", func(context.Context) (int, error) { return 7, nil })
			if err := s.Wait(); err != nil {
				return "", err
			}
			return fmt.Sprintf("%d of %s", stock.Value(), name.Value()), nil
		})
	fmt.Println(page, err)
	// Output: 7 of lamp <nil>
}
