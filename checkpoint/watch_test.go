package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/checkpoint"
)

// sourceFunc is a Source that counts how often it was asked.
type sourceFunc func(ctx context.Context, job string) (bool, error)

func (f sourceFunc) Cancelled(ctx context.Context, job string) (bool, error) { return f(ctx, job) }

// In each of these tests the bubble also checks that Watch's goroutine ends.

func TestACancelInTheSourceEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var src checkpoint.Memory
		parent, _ := enter(t, context.Background(), budget.Within(time.Hour))
		ctx, stop := checkpoint.Watch(parent, &src, "export-7", time.Second)
		defer stop()
		p := checkpoint.New(ctx)
		time.Sleep(10 * time.Second)
		src.Cancel("export-8")
		time.Sleep(10*time.Second + time.Millisecond)
		require.NoError(t, p.Err(), "another job")

		src.Cancel("export-7")
		start := time.Now()
		<-ctx.Done()
		assert.LessOrEqual(t, time.Since(start), time.Second)
		synctest.Wait()
		err := p.Err()
		assert.Equal(t, budget.UserCancelled, budget.KindOf(err))
		assert.ErrorIs(t, err, context.Canceled)
		assert.EqualError(t, err, `budget: user cancelled: checkpoint: job "export-7" was cancelled`)
		assert.NoError(t, parent.Err(), "the parent goes on")
		src.Forget("export-7")
		assert.Error(t, ctx.Err(), "an end stays")
	})
}

func TestAJobThatWasCancelledBeforeItBeganEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var src checkpoint.Memory
		src.Cancel("a")
		start := time.Now()
		ctx, stop := checkpoint.Watch(context.Background(), &src, "a", time.Hour)
		defer stop()
		<-ctx.Done()
		assert.Zero(t, time.Since(start))

		src.Forget("a")
		again, stop := checkpoint.Watch(context.Background(), &src, "a", time.Hour)
		defer stop()
		synctest.Wait()
		assert.NoError(t, again.Err())
	})
}

// A source that is down, or slow, cancels nothing and holds nothing up.
func TestASourceThatCannotBeAskedDoesNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		src := sourceFunc(func(ctx context.Context, job string) (bool, error) {
			switch asked++; asked {
			case 1:
				return true, errors.New("down") // an error says nothing about the job
			case 2:
				<-ctx.Done() // for as long as it is let
				return false, context.Cause(ctx)
			case 3:
				return false, nil
			}
			return true, nil
		})
		start := time.Now()
		ctx, stop := checkpoint.Watch(context.Background(), src, "a", 100*time.Millisecond)
		defer stop()
		<-ctx.Done()
		assert.Equal(t, 4, asked)
		assert.Equal(t, 3*100*time.Millisecond+time.Second, time.Since(start), "a question has a second at least")
	})
}

// A source that ends the goroutine that asks, as a fake of a test does by FailNow, is
// asked again like one that is down.
func TestASourceThatCallsGoexitIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		start := time.Now()
		ctx, stop := checkpoint.Watch(context.Background(), sourceFunc(func(context.Context, string) (bool, error) {
			if asked++; asked < 3 {
				runtime.Goexit()
			}
			return true, nil
		}), "a", time.Second)
		defer stop()
		<-ctx.Done()
		assert.Equal(t, budget.UserCancelled, budget.KindOf(context.Cause(ctx)))
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestAWatchEndsWithItsParentAndByItsFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asking := make(chan struct{}, 1)
		src := sourceFunc(func(ctx context.Context, job string) (bool, error) {
			asking <- struct{}{}
			<-ctx.Done()
			return false, context.Cause(ctx)
		})
		parent, _ := enter(t, context.Background(), budget.Within(time.Second).Named("route maximum"))
		ctx, stop := checkpoint.Watch(parent, src, "a", time.Hour)
		defer stop()
		<-asking
		<-ctx.Done()
		assert.Equal(t, context.DeadlineExceeded, ctx.Err())
		assert.Same(t, context.Cause(parent), context.Cause(ctx))

		ctx, stop = checkpoint.Watch(context.Background(), src, "a", time.Hour)
		<-asking
		stop()
		stop()
		assert.Equal(t, budget.Cancelled, budget.KindOf(context.Cause(ctx)))
	})
}

// A work under the watch learns why, at any depth.
func TestTheCauseOfAWatchIsSeenBelowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var src checkpoint.Memory
		ctx, stop := checkpoint.Watch(context.Background(), &src, "a", time.Second)
		defer stop()
		work, _ := enter(t, ctx, budget.Within(time.Hour))
		src.Cancel("a")
		<-work.Done()
		assert.Equal(t, budget.UserCancelled, budget.KindOf(context.Cause(work)))
	})
}

func TestMemoryIsSharedByManyGoroutines(t *testing.T) {
	var src checkpoint.Memory
	var all sync.WaitGroup
	for i := range 8 {
		job := fmt.Sprint(i)
		all.Go(func() {
			for range 1000 {
				src.Cancel(job)
				yes, err := src.Cancelled(context.Background(), job)
				if !yes || err != nil {
					t.Errorf("%s: %v, %v", job, yes, err)
				}
				src.Forget(job)
				if yes, _ := src.Cancelled(context.Background(), job); yes {
					t.Errorf("%s is not forgotten", job)
				}
			}
		})
	}
	all.Wait()
}
