package scope_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// Tasks that bring back the verdict of a scope inside which was cut with their own. They
// end without a lock, and who waits for one, or abandons it, may come at any moment.

var errNo = errors.New("no")

// cutInside runs a scope that ends with ctx, and returns its verdict.
func cutInside(ctx context.Context) error {
	return scope.Run(ctx, "inside", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
		<-ctx.Done()
		return ctx.Err()
	})
}

func TestWhoWaitsForATaskThatIsCutInAScopeInsideGetsThatVerdict(t *testing.T) {
	var late, early atomic.Int64
	for range 400 {
		var brought error
		go2 := startLine(3)
		_ = scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			ended := make(chan struct{})
			task := scope.Fork(s, "task", func(ctx context.Context) (int, error) {
				brought = cutInside(ctx)
				go2()
				close(ended)
				return 0, brought
			})
			for range 2 {
				s.Go("waits", func(ctx context.Context) error {
					<-ctx.Done()
					go2()
					select {
					case <-ended:
						late.Add(1)
					default:
						early.Add(1)
					}
					_, err := task.Wait(context.WithoutCancel(ctx))
					assert.Same(t, brought, err)
					return ctx.Err()
				})
			}
			return errNo
		})
	}
	assert.NotZero(t, late.Load())
	assert.NotZero(t, early.Load())
}

func TestATaskThatIsAbandonedWhileItBringsBackSuchAVerdictHasOneOutcome(t *testing.T) {
	var left, back atomic.Int64
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			var brought error
			var task *scope.Task[int]
			err := scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
				s.SetStragglers(time.Second, scope.Abandon)
				task = scope.Fork(s, "task", func(ctx context.Context) (int, error) {
					brought = cutInside(ctx)
					// At the very instant, a moment before or after it.
					time.Sleep(time.Second + time.Duration(i%3-1))
					return 0, brought
				})
				return errNo
			})
			require.ErrorIs(t, err, errNo)
			time.Sleep(time.Minute)
			_, err = task.Wait(context.WithoutCancel(t.Context()))
			if errors.Is(err, scope.ErrAbandoned) {
				left.Add(1)
			} else {
				back.Add(1)
				assert.Same(t, brought, err)
			}
		})
	}
	assert.NotZero(t, left.Load())
	assert.NotZero(t, back.Load())
}

// copied returns a verdict that says what err, which is one, says.
func copied(err error) error {
	e := *err.(*scope.Error)
	return &e
}

func TestTasksThatBringBackTheSameVerdictHaveOutcomesOfTheirOwn(t *testing.T) {
	for range 200 {
		_ = scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(_ context.Context, s *scope.Scope) error {
			verdicts := make(chan error, 2)
			var brought error
			first := scope.Fork(s, "first", func(ctx context.Context) (int, error) {
				err := cutInside(ctx)
				verdicts <- err
				verdicts <- err
				return 0, err
			})
			second := scope.Fork(s, "second", func(context.Context) (int, error) { return 0, <-verdicts })
			third := scope.Fork(s, "third", func(context.Context) (int, error) { return 0, copied(<-verdicts) })
			fourth := scope.Fork(s, "fourth", func(ctx context.Context) (int, error) {
				brought = copied(cutInside(ctx))
				return 0, brought
			})
			s.Go("waits", func(ctx context.Context) error {
				<-ctx.Done()
				own := context.WithoutCancel(ctx)
				_, one := first.Wait(own)
				_, two := second.Wait(own)
				_, three := third.Wait(own)
				_, four := fourth.Wait(own)
				assert.Same(t, one, two)
				assert.NotSame(t, one, three)
				assert.Equal(t, one.Error(), three.Error())
				assert.Same(t, brought, four)
				return ctx.Err()
			})
			return errNo
		})
	}
}

func TestAVerdictOfAScopeThatWasCutNamesItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			says func(context.Context) error
			want error
		}{
			{context.Context.Err, context.Canceled},
			{context.Cause, nil},
			{context.Context.Err, context.DeadlineExceeded},
		} {
			ctx, cancel, err := budget.Enter(t.Context(), budget.Within(time.Hour))
			require.NoError(t, err)
			var inner error
			err = scope.Run(ctx, "cut", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
				if c.want != context.DeadlineExceeded {
					cancel()
				}
				<-ctx.Done()
				inner = c.says(ctx)
				return inner
			})
			cancel()
			var e *scope.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "cut", e.Scope)
			assert.Same(t, context.Cause(ctx), e.Cause)
			require.Len(t, e.Late, 1)
			assert.Equal(t, &scope.TaskError{Err: inner, Induced: true}, e.Late[0])
			if c.want != nil {
				assert.Equal(t, c.want, inner)
				assert.ErrorIs(t, err, c.want)
			}
		}
	})
}

func TestWhatACallerDoesToTheListOfAVerdictIsNoAffairOfOthers(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Minute + 1} { // canceled, overdue
		synctest.Test(t, func(t *testing.T) {
			verdict := func() (e *scope.Error) {
				_ = scope.Run(t.Context(), "shop", budget.Within(time.Minute), func(ctx context.Context, s *scope.Scope) error {
					time.AfterFunc(after, func() { s.Cancel(nil) })
					require.ErrorAs(t, cutInside(ctx), &e)
					return nil
				})
				return e
			}
			mine := verdict()
			said := mine.Error()
			mine.Late = slices.DeleteFunc(mine.Late, func(err error) bool { return err.(*scope.TaskError).Induced })
			other := verdict()
			require.Len(t, other.Late, 1)
			require.NotNil(t, other.Late[0])
			assert.Equal(t, said, other.Error())
		})
	}
}
