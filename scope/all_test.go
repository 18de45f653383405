package scope_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// within is a context with a deadline, for the forms that inherit one.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel, err := budget.Enter(t.Context(), budget.Within(d))
	require.NoError(t, err)
	t.Cleanup(cancel)
	return ctx
}

func TestCase39_ValuesComeInTheOrderOfSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backwards := func(ctx context.Context, i int) (int, error) {
			time.Sleep(time.Duration(10-i) * time.Second)
			return i, nil
		}
		want := []int{0, 1, 2}
		ctx := within(t, time.Hour)

		var fs []func(context.Context) (int, error)
		for i := range 3 {
			fs = append(fs, func(ctx context.Context) (int, error) { return backwards(ctx, i) })
		}
		got, err := scope.All(ctx, "all", fs...)
		require.NoError(t, err)
		assert.Equal(t, want, got)

		got, err = scope.Map(ctx, "map", 3, want, backwards)
		require.NoError(t, err)
		assert.Equal(t, want, got)

		got = nil
		for v, err := range scope.MapSeq(ctx, "stream", 3, slices.Values(want), backwards) {
			require.NoError(t, err)
			got = append(got, v)
		}
		assert.Equal(t, want, got)
	})
}

// forms runs f for n items, at most width at once, in every form of Map.
func forms(n, width int) map[string]func(context.Context, func(context.Context, int) error) error {
	in := make([]int, n)
	for i := range in {
		in[i] = i
	}
	withValue := func(f func(context.Context, int) error) func(context.Context, int) (int, error) {
		return func(ctx context.Context, i int) (int, error) { return i, f(ctx, i) }
	}
	return map[string]func(context.Context, func(context.Context, int) error) error{
		"Each": func(ctx context.Context, f func(context.Context, int) error) error {
			return scope.Each(ctx, "map", width, in, f)
		},
		"Map": func(ctx context.Context, f func(context.Context, int) error) error {
			_, err := scope.Map(ctx, "map", width, in, withValue(f))
			return err
		},
		"MapSeq": func(ctx context.Context, f func(context.Context, int) error) error {
			var last error
			for _, err := range scope.MapSeq(ctx, "map", width, slices.Values(in), withValue(f)) {
				last = err
			}
			return last
		},
	}
}

func TestCase38_AMapReturnsAfterTheFirstErrorWithNothingRunning(t *testing.T) {
	boom := errors.New("boom")
	for name, form := range forms(100, 5) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var started, live atomic.Int64
				start := time.Now()
				err := form(within(t, time.Hour), func(ctx context.Context, i int) error {
					started.Add(1)
					live.Add(1)
					defer live.Add(-1)
					if i == 3 {
						return boom
					}
					select {
					case <-time.After(time.Duration(i+1) * time.Second):
						return nil
					case <-ctx.Done():
						time.Sleep(time.Millisecond) // it takes a moment to obey
						return context.Cause(ctx)
					}
				})
				assert.ErrorIs(t, err, boom)
				assert.Equal(t, budget.Failed, budget.KindOf(err))
				assert.NotErrorIs(t, err, context.Canceled)
				assert.Zero(t, live.Load())
				assert.LessOrEqual(t, started.Load(), int64(8))
				assert.Equal(t, time.Millisecond, time.Since(start))
				var e *scope.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, "3", e.Cause.Task, "the item is named")
			})
		})
	}
}

func TestAMapThatTheDeadlineCutsSaysSo(t *testing.T) {
	for name, form := range forms(10, 2) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun atomic.Int64
				err := form(within(t, 2500*time.Millisecond), func(context.Context, int) error {
					begun.Add(1)
					time.Sleep(time.Second) // and never looks at its context
					return nil
				})
				assert.ErrorIs(t, err, context.DeadlineExceeded, "items were skipped")
				if name != "MapSeq" { // whose items are not known beforehand
					assert.ErrorContains(t, err, "not begun: 4")
				}
				assert.EqualValues(t, 6, begun.Load())
			})
		})
	}
}

func TestWidthIsNeverExceededAndIsUsed(t *testing.T) {
	for _, width := range []int{1, 2, 7, 200} {
		for name, form := range forms(60, width) {
			t.Run(fmt.Sprint(name, " width ", width), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var live, most, sum atomic.Int64
					start := time.Now()
					require.NoError(t, form(within(t, time.Hour), func(_ context.Context, i int) error {
						n := live.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
						}
						time.Sleep(time.Second)
						live.Add(-1)
						sum.Add(int64(i))
						return nil
					}))
					assert.EqualValues(t, min(width, 60), most.Load())
					assert.Equal(t, time.Duration((60+width-1)/width)*time.Second, time.Since(start))
					assert.EqualValues(t, 59*60/2, sum.Load(), "each item once")
				})
			})
		}
	}
}

func TestCase03_GoexitOfAnItemIsAFailure(t *testing.T) {
	for name, form := range forms(20, 4) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done := make(chan error, 1)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					done <- form(within(t, time.Hour), func(ctx context.Context, i int) error {
						if i == 2 { // not the caller's own, which is 0
							goexit()
						}
						<-ctx.Done()
						return context.Cause(ctx)
					})
				}()
				<-ended
				if name == "MapSeq" {
					assert.ErrorIs(t, <-done, scope.ErrGoexit)
					return
				}
				// Any item may be on the caller's goroutine, which then ends
				// after the join; else the failure names the item.
				select {
				case err := <-done:
					assert.ErrorIs(t, err, scope.ErrGoexit)
					assert.ErrorContains(t, err, `task "2"`)
				default:
				}
			})
		})
	}
	t.Run("on the caller's goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			joined, returned := false, false
			ended := make(chan struct{})
			ctx := within(t, time.Hour)
			go func() {
				defer close(ended)
				scope.All(ctx, "all",
					func(ctx context.Context) (int, error) {
						<-ctx.Done()
						time.Sleep(time.Second)
						joined = true
						return 0, context.Cause(ctx)
					},
					func(context.Context) (int, error) { goexit(); return 0, nil })
				returned = true
			}()
			<-ended
			assert.True(t, joined, "the sibling was cancelled and joined first")
			assert.False(t, returned, "the caller's goroutine is at its end")
		})
	})
}

func TestAPanicOfAnItemSurfacesFromTheCall(t *testing.T) {
	for name, form := range forms(20, 4) {
		for _, bad := range []int{0, 2, 19} {
			t.Run(fmt.Sprint(name, " item ", bad), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, _ := quiet()
					ctx, cancel, _ := budget.Enter(ctx, budget.Within(time.Hour))
					defer cancel()
					var live atomic.Int64
					v := recovered(func() {
						form(ctx, func(_ context.Context, i int) error {
							live.Add(1)
							defer live.Add(-1)
							time.Sleep(time.Second)
							if i == bad {
								return explode("ouch")
							}
							return nil
						})
					})
					assert.Zero(t, live.Load(), "all have ended")
					if pe, ok := v.(*scope.PanicError); ok { // on a goroutine of its own
						assert.Equal(t, "map/"+strconv.Itoa(bad), pe.Task)
						v = pe.Value
					}
					assert.Equal(t, "ouch", v)
				})
			})
		}
	}
}

func TestAllReturnsWhatItHasBesideAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		got, err := scope.All(within(t, time.Hour), "all",
			func(context.Context) (string, error) { return "lock", nil },
			func(context.Context) (string, error) { time.Sleep(time.Second); return "lost", boom },
			func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) })
		assert.ErrorIs(t, err, boom)
		assert.Equal(t, []string{"lock", "", ""}, got)
	})
}

func TestAllAndMapOfNothing(t *testing.T) {
	ctx := within(t, time.Hour)
	all, err := scope.All[int](ctx, "all")
	require.NoError(t, err)
	assert.Empty(t, all)
	mapped, err := scope.Map(ctx, "map", 3, nil, func(context.Context, int) (int, error) { return 0, nil })
	require.NoError(t, err)
	assert.Empty(t, mapped)
	for range scope.MapSeq(ctx, "map", 3, slices.Values([]int(nil)), func(context.Context, int) (int, error) { return 0, nil }) {
		t.Error("yielded something")
	}
}

func TestTheOneCallFormsInheritADeadlineOrDoNothing(t *testing.T) {
	never := func(context.Context, int) (int, error) { t.Error("it ran"); return 0, nil }
	ended, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	for name, c := range map[string]struct {
		ctx context.Context
		is  error
	}{
		"no deadline": {context.Background(), budget.ErrNoDeadline},
		"expired":     {ended, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scope.All(c.ctx, "x", func(ctx context.Context) (int, error) { return never(ctx, 0) })
			assert.ErrorIs(t, err, c.is)
			out, err := scope.Map(c.ctx, "x", 1, []int{1}, never)
			assert.ErrorIs(t, err, c.is)
			assert.Equal(t, []int{0}, out)
			pulled, yielded := false, 0
			for _, err := range scope.MapSeq(c.ctx, "x", 1, func(func(int) bool) { pulled = true }, never) {
				yielded++
				assert.ErrorIs(t, err, c.is)
			}
			assert.Equal(t, 1, yielded)
			assert.False(t, pulled, "nothing is taken from the source")
		})
	}
}

func TestAStreamHoldsItsProducerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const width = 3
		taken, consumed := 0, 0
		source := func(yield func(int) bool) {
			for i := range 100 {
				taken++
				assert.LessOrEqual(t, taken-consumed, width+1)
				if !yield(i) {
					return
				}
			}
		}
		for v, err := range scope.MapSeq(within(t, time.Hour), "stream", width, source, func(_ context.Context, i int) (int, error) {
			time.Sleep(time.Second)
			return 2 * i, nil
		}) {
			require.NoError(t, err)
			assert.Equal(t, 2*consumed, v)
			consumed++
			time.Sleep(10 * time.Second)
		}
		assert.Equal(t, 100, consumed)
	})
}

func TestBreakingOutOfAStreamEndsItsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live, cancelled atomic.Int64
		start := time.Now()
		endless := func(yield func(int) bool) {
			for i := 0; yield(i); i++ {
			}
		}
		for v, err := range scope.MapSeq(within(t, time.Hour), "stream", 4, endless, func(ctx context.Context, i int) (int, error) {
			live.Add(1)
			defer live.Add(-1)
			select {
			case <-time.After(time.Duration(i) * time.Second):
				return i, nil
			case <-ctx.Done():
				cancelled.Add(1)
				return 0, context.Cause(ctx)
			}
		}) {
			require.NoError(t, err)
			if v == 2 {
				break
			}
		}
		assert.Zero(t, live.Load(), "the loop is left once all have ended")
		assert.EqualValues(t, 3, cancelled.Load())
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
}

// TestAStreamSurvivesWhateverItsLoopDoes: the scope is closed however the loop is
// left.
func TestAStreamSurvivesWhateverItsLoopDoes(t *testing.T) {
	one := func(context.Context, int) (int, error) { return 1, nil }
	endless := iter.Seq[int](func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
		}
	})
	leave := map[string]func(){
		"panic":  func() { explode("loop") },
		"Goexit": goexit,
	}
	for name, f := range leave {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := within(t, time.Hour)
				var v any
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					v = recovered(func() {
						for range scope.MapSeq(ctx, "stream", 3, endless, one) {
							f()
						}
					})
				}()
				<-ended
				if name == "panic" {
					assert.Equal(t, "loop", v)
				}
			})
		})
	}
}
