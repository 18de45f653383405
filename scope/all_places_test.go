package scope_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/race"
)

// The tasks of an All share what they do, and know by their place which function is
// theirs and where its value goes.

// callers call an All where somebody looks on, where tasks need slots, and where neither
// is so.
var callers = map[string]func(t *testing.T, f func(context.Context) error) error{
	"nobody looks on": func(t *testing.T, f func(context.Context) error) error { return f(within(t, time.Hour)) },
	"a Trace": func(t *testing.T, f func(context.Context) error) error {
		ctx, _ := watched(within(t, time.Hour))
		return f(ctx)
	},
	"slots": func(t *testing.T, f func(context.Context) error) error {
		return scope.Run(within(t, time.Hour), "shop", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(3)
			return f(ctx)
		})
	},
	"a Root": func(t *testing.T, f func(context.Context) error) error {
		done := make(chan error, 1)
		root := scope.NewRoot("shop")
		if err := root.Go(t.Context(), "work", budget.Within(time.Hour), func(ctx context.Context) error {
			done <- f(ctx)
			return nil
		}); err != nil {
			return err
		}
		return errors.Join(<-done, root.Drain(within(t, time.Hour)))
	},
}

func TestEachFunctionOfAnAllRunsOnceUnderItsPlaceAndItsValueStandsThere(t *testing.T) {
	for name, in := range callers {
		for _, n := range []int{1, 2, 5, 130} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					calls := make([]atomic.Int32, n)
					fs := make([]func(context.Context) (string, error), n)
					want := make([]string, n)
					for i := range fs {
						want[i] = "value " + strconv.Itoa(i)
						fs[i] = func(ctx context.Context) (string, error) {
							calls[i].Add(1)
							assert.Equal(t, strconv.Itoa(i), ctx.(interface{ Task() string }).Task())
							// Its attempts are tasks of the same scope.
							return race.First(ctx, "race",
								func(context.Context) (string, error) { return want[i], nil },
								func(context.Context) (string, error) { return "", errors.New("no value") })
						}
					}
					err := in(t, func(ctx context.Context) error {
						got, err := scope.All(ctx, "all", fs...)
						assert.Equal(t, want, got)
						return err
					})
					require.NoError(t, err)
					for i := range calls {
						assert.EqualValues(t, 1, calls[i].Load())
					}
				})
			})
		}
	}
}

func TestAFailureOfAnAllIsNamedByItsPlace(t *testing.T) {
	boom := errors.New("boom")
	for name, in := range callers {
		for _, bad := range []int{0, 7, 119} {
			t.Run(fmt.Sprint(name, " ", bad), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fs := make([]func(context.Context) (int, error), 120)
					for i := range fs {
						fs[i] = func(ctx context.Context) (int, error) {
							if i == bad {
								return 1, boom
							}
							<-ctx.Done()
							return 1, context.Cause(ctx)
						}
					}
					if name == "slots" {
						fs = fs[:min(bad+1, 3)] // those behind would never begin
						fs[len(fs)-1] = func(context.Context) (int, error) { return 1, boom }
						bad = len(fs) - 1
					}
					_ = in(t, func(ctx context.Context) error {
						got, err := scope.All(ctx, "all", fs...)
						var e *scope.Error
						require.ErrorAs(t, err, &e)
						assert.Equal(t, strconv.Itoa(bad), e.Cause.Task)
						assert.Equal(t, make([]int, len(fs)), got, "no value beside an error of its own")
						return nil
					})
				})
			})
		}
	}
}

func TestAStragglerOfAnAllIsReportedByItsPlaceAndFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		old := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
		defer slog.SetDefault(old)
		obeys := func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) }
		_, err := scope.All(within(t, time.Second), "all", obeys,
			func(context.Context) (int, error) { time.Sleep(3 * time.Second); return 0, nil },
			obeys,
			func(ctx context.Context) (int, error) { return 0, deafTask(ctx) })
		assert.Equal(t, budget.DeadlineExceeded, budget.KindOf(err))
		assert.Contains(t, out.String(), "task=1")
		assert.Contains(t, out.String(), "task=3")
		assert.Contains(t, out.String(), "all_places_test.go")
		assert.Contains(t, out.String(), "deafTask", "its stack is shown")
		assert.NotContains(t, out.String(), "task=0")
		assert.NotContains(t, out.String(), "task=2")
	})
}

// TestAPieceThatDidNotBeginHasNoValue: those that are started and those that are skipped
// when one fails meanwhile are told apart by their places.
func TestAPieceThatDidNotBeginHasNoValue(t *testing.T) {
	boom := errors.New("boom")
	skipped := 0
	ctx := within(t, time.Hour)
	for range 2000 {
		var calls [12]atomic.Int32
		var fs []func(context.Context) (int, error)
		for i := range calls {
			fs = append(fs, func(context.Context) (int, error) {
				calls[i].Add(1)
				if i == 0 {
					return 0, boom
				}
				return i, nil
			})
		}
		got, err := scope.All(ctx, "all", fs...)
		require.ErrorIs(t, err, boom)
		for i := range calls {
			switch calls[i].Load() {
			case 0:
				skipped++
				assert.Zero(t, got[i])
			case 1:
				assert.Equal(t, i, got[i])
			default:
				t.Fatal("it ran twice")
			}
		}
	}
	t.Logf("%d were not begun", skipped)
}

// TestAllocationsOfAnAll: what BenchmarkFanout of package bench counts.
func TestAllocationsOfAnAll(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := within(t, time.Hour)
	for n, most := range map[int]float64{1: 2, 4: 4, 16: 4} {
		fs := make([]func(context.Context) (int, error), n)
		for i := range fs {
			fs[i] = func(context.Context) (int, error) { return i, nil }
		}
		assert.LessOrEqual(t, testing.AllocsPerRun(200, func() { _, _ = scope.All(ctx, "all", fs...) }), most)
	}
}
