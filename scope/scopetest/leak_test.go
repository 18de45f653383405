package scopetest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/scopetest"
)

// deafTo returns a task that ends when release is closed, whatever its context does.
func deafTo(release <-chan struct{}) func(context.Context) error {
	return func(context.Context) error { <-release; return nil }
}

// obedient is a task that ends with its context.
func obedient(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// inBubble runs f in a bubble with a recorder, and releases what f left there.
func inBubble(t *testing.T, f func(t *testing.T, r *recorder, release <-chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		f(t, record(t), release)
	})
}

// runBeside runs a scope on a goroutine that the test does not wait for: the leak.
func runBeside(ctx context.Context, body func(context.Context, *scope.Scope) error) {
	go func() { _ = scope.Run(ctx, "shop", budget.Inherited(), body) }()
	synctest.Wait()
}

func TestATaskThatStillRunsFailsItsTestByPathAgeAndLine(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		var line string
		runBeside(scopetest.Context(r), func(_ context.Context, s *scope.Scope) error {
			line = lineBelow(1)
			s.Go("fetch", deafTo(release))
			s.Go("obeys", obedient)
			return nil
		})
		time.Sleep(3 * time.Second)
		failures := r.end()
		require.Len(t, failures, 1)
		assert.Regexp(t, `^scopetest: shop/fetch still runs \(straggler, 5s old\), started at `+line+
			`, in .*deafTo\S* \S*leak_test\.go:\d+$`, failures[0])
	})
}

func TestWhatEndsWithTheTestsContextIsNoLeak(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
		began := time.Now()
		runBeside(scopetest.Context(r), func(_ context.Context, s *scope.Scope) error {
			s.Go("fetch", obedient)
			return nil
		})
		assert.Empty(t, r.end())
		assert.Less(t, time.Since(began), 10*time.Millisecond, "nobody to wait for, no wait")
	})
}

func TestTheGraceDecidesWhatIsALeak(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []scopetest.Option
		takes   time.Duration
		leak    bool
	}{
		{"within the default", nil, 1900 * time.Millisecond, false},
		{"after the default", nil, 2100 * time.Millisecond, true},
		{"within a longer one", []scopetest.Option{scopetest.Grace(time.Minute)}, 59 * time.Second, false},
		{"after a shorter one", []scopetest.Option{scopetest.Grace(time.Second)}, 1100 * time.Millisecond, true},
		{"none", []scopetest.Option{scopetest.Grace(0)}, time.Nanosecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *recorder, _ <-chan struct{}) {
				ctx := scopetest.Context(r, tt.options...)
				runBeside(ctx, func(_ context.Context, s *scope.Scope) error {
					s.SetStragglers(-1, scope.Wait)
					s.Go("slow", func(ctx context.Context) error {
						<-ctx.Done()
						time.Sleep(tt.takes)
						return nil
					})
					return nil
				})
				failures := r.end()
				assert.Equal(t, tt.leak, len(failures) > 0, "%v", failures)
				time.Sleep(time.Minute) // let it end
			})
		})
	}
}

func TestAnOrphanIsALeakUnlessItIsAllowed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		allowed string
		leaks   []string
	}{
		{"nothing allowed", "", []string{"shop/legacy", "shop/legacy/inner"}},
		{"by name", "shop/legacy", nil},
		{"by pattern", "*/leg*", nil},
		{"another one", "shop/leg", []string{"shop/legacy", "shop/legacy/inner"}},
		{"only what it opened", "shop/legacy/*", []string{"shop/legacy", "shop/legacy/inner"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
				var options []scopetest.Option
				if tt.allowed != "" {
					options = append(options, scopetest.AllowOrphan(tt.allowed))
				}
				ctx := scopetest.Context(r, options...)
				err := scope.Run(ctx, "shop", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
					s.SetStragglers(100*time.Millisecond, scope.Abandon)
					s.Go("legacy", func(ctx context.Context) error {
						return scope.Run(ctx, "inner", budget.Inherited(), func(context.Context, *scope.Scope) error {
							<-release
							return nil
						})
					})
					return nil
				})
				assert.ErrorIs(t, err, scope.ErrAbandoned)
				failures := r.end()
				require.Len(t, failures, len(tt.leaks))
				for i, path := range tt.leaks {
					assert.Contains(t, failures[i], path+" still runs (")
				}
			})
		})
	}
}

func TestALeakThatItsScopeWaitsForIsNotAllowedAsAnOrphan(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		runBeside(scopetest.Context(r, scopetest.AllowOrphan("shop/*")), func(_ context.Context, s *scope.Scope) error {
			s.Go("legacy", deafTo(release))
			return nil
		})
		assert.Contains(t, oneLine(r.end()), "shop/legacy still runs (straggler")
	})
}

func TestAScopeInWhichOnlyTheBodyRunsIsALeak(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		runBeside(scopetest.Context(r), func(context.Context, *scope.Scope) error { <-release; return nil })
		failures := r.end()
		require.Len(t, failures, 1)
		assert.Regexp(t, `shop still runs \(body, 2s old\), in .*TestAScopeInWhichOnlyTheBodyRunsIsALeak.* .*leak_test.go:\d+`, failures[0])
	})
}

func TestABodyThatWaitsForAScopeInsideIsNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		runBeside(scopetest.Context(r), func(ctx context.Context, _ *scope.Scope) error {
			return scope.Run(ctx, "inner", budget.Inherited(), func(context.Context, *scope.Scope) error { <-release; return nil })
		})
		failures := r.end()
		require.Len(t, failures, 1)
		assert.Contains(t, failures[0], "scopetest: shop/inner still runs (body")
	})
}

func TestAScopeInWhichACleanupRunsIsALeak(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		ctx := scopetest.Context(r)
		go func() {
			_ = scope.Run(ctx, "shop", budget.Within(time.Hour).Cleanup(10*time.Second), func(_ context.Context, s *scope.Scope) error {
				s.Cleanup("unlock", deafTo(release))
				return nil
			})
		}()
		synctest.Wait()
		assert.Contains(t, oneLine(r.end()), "scopetest: shop still runs (cleanup unlock, 2s old)")
		time.Sleep(time.Minute)
	})
}

func TestManyLeaksAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
		runBeside(scopetest.Context(r), func(_ context.Context, s *scope.Scope) error {
			for i := range 30 {
				s.Go(fmt.Sprint(i), deafTo(release))
			}
			return nil
		})
		failures := r.end()
		require.Len(t, failures, 21)
		assert.Equal(t, "scopetest: and 10 more still run", failures[20])
	})
}

// Whatever starts the task, the line is that of the user's code.
func TestTheLineIsOfTheCodeThatStartedTheTask(t *testing.T) {
	type item = func(context.Context) (int, error)
	for _, tt := range []struct {
		name  string
		leaks int
		start func(s *scope.Scope, ctx context.Context, f item) (line string)
	}{
		{"Go", 1, func(s *scope.Scope, _ context.Context, f item) string {
			s.Go("x", func(ctx context.Context) error { _, err := f(ctx); return err })
			return lineBelow(-1)
		}},
		{"Fork", 1, func(s *scope.Scope, _ context.Context, f item) string {
			scope.Fork(s, "x", f)
			return lineBelow(-1)
		}},
		{"Go of a handle", 1, func(s *scope.Scope, _ context.Context, f item) string {
			scope.Fork(s.Limit(budget.Within(time.Minute)), "x", f)
			return lineBelow(-1)
		}},
		{"Start", 1, func(s *scope.Scope, _ context.Context, f item) string {
			_, _ = scope.Start(s, "x", func(ctx context.Context, ready func(int)) error { ready(1); _, err := f(ctx); return err })
			return lineBelow(-1)
		}},
		{"All", 2, func(_ *scope.Scope, ctx context.Context, f item) string {
			line := lineBelow(1)
			go func() { _, _ = scope.All(ctx, "all", f, f) }()
			return line
		}},
		{"Map", 2, func(_ *scope.Scope, ctx context.Context, f item) string {
			line := lineBelow(2)
			go func() {
				_, _ = scope.Map(ctx, "map", 2, []int{1, 2}, func(ctx context.Context, _ int) (int, error) { return f(ctx) })
			}()
			return line
		}},
		{"Each", 2, func(_ *scope.Scope, ctx context.Context, f item) string {
			line := lineBelow(2)
			go func() {
				_ = scope.Each(ctx, "each", 2, []int{1, 2}, func(ctx context.Context, _ int) error { _, err := f(ctx); return err })
			}()
			return line
		}},
		{"MapSeq", 2, func(_ *scope.Scope, ctx context.Context, f item) string {
			line := lineBelow(3)
			go func() {
				seq := scope.MapSeq(ctx, "seq", 2, slices.Values([]int{1, 2}), func(ctx context.Context, _ int) (int, error) { return f(ctx) })
				for range seq {
				}
			}()
			return line
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *recorder, release <-chan struct{}) {
				var line string
				runBeside(scopetest.Context(r), func(ctx context.Context, s *scope.Scope) error {
					line = tt.start(s, ctx, func(context.Context) (int, error) { <-release; return 0, nil })
					<-release
					return nil
				})
				var named int
				for _, f := range r.end() {
					if strings.Contains(f, ", started at "+line+",") {
						named++
					} else {
						assert.NotContains(t, f, "started at", "another line than %s", line)
					}
				}
				assert.Equal(t, tt.leaks, named, "%v", r.failures)
			})
		})
	}
}
