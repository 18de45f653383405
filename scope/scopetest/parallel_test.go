package scopetest_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
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

// The tests below run in a process of their own, whose output the cases read: a
// leak has to fail a test, and that must not be this one.
const childEnv = "SCOPETEST_CHILD"

// runChild runs the test called name in another process and returns its output.
func runChild(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.v", "-test.parallel=2")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "the leak fails it:\n%s", out)
	return string(out)
}

func onlyAsChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("runs in the process that another test starts")
	}
}

func TestChildTwoParallelTestsOfWhichOneLeaks(t *testing.T) {
	onlyAsChild(t)
	bothRun := make(chan struct{})
	leaked := make(chan struct{})
	t.Run("leaks", func(t *testing.T) {
		t.Parallel()
		ctx := scopetest.Context(t, scopetest.Grace(100*time.Millisecond))
		<-bothRun
		go func() {
			_ = scope.Run(ctx, "shop", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Go("fetch", func(context.Context) error { close(leaked); select {} })
				return nil
			})
		}()
		<-leaked
	})
	t.Run("clean", func(t *testing.T) {
		t.Parallel()
		ctx := scopetest.Context(t, scopetest.Grace(100*time.Millisecond))
		close(bothRun)
		<-leaked // the other's task runs from before to after this one's check
		err := scope.Run(ctx, "shop", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
			s.Go("fetch", func(context.Context) error { return nil })
			return nil
		})
		assert.NoError(t, err)
	})
}

func TestCase58_ALeakFailsTheTestThatMadeItAndNamesTaskAndLine(t *testing.T) {
	out := runChild(t, "TestChildTwoParallelTestsOfWhichOneLeaks")
	assert.Regexp(t, `--- FAIL: TestChildTwoParallelTestsOfWhichOneLeaks/leaks`, out)
	assert.Regexp(t, `--- PASS: TestChildTwoParallelTestsOfWhichOneLeaks/clean`, out)
	leaks := regexp.MustCompile(`scopetest: .*`).FindAllString(out, -1)
	require.Len(t, leaks, 1, out)
	site := regexp.MustCompile(`^scopetest: shop/fetch still runs \(\w+, .* old\), started at (.*):(\d+), in `).FindStringSubmatch(leaks[0])
	require.NotNil(t, site, leaks[0])
	source, err := os.ReadFile(site[1])
	require.NoError(t, err)
	line, _ := strconv.Atoi(site[2])
	assert.Contains(t, strings.Split(string(source), "\n")[line-1], `s.Go("fetch", `)
}

func TestChildLeakInABubble(t *testing.T) {
	onlyAsChild(t)
	synctest.Test(t, func(t *testing.T) {
		runBeside(scopetest.Context(t), func(_ context.Context, s *scope.Scope) error {
			s.Go("fetch", func(context.Context) error { select {} })
			return nil
		})
	})
}

// A goroutine that stays blocked makes its bubble panic. The leak is told all the
// same, and before.
func TestALeakInABubbleIsToldBeforeTheBubbleDies(t *testing.T) {
	out := runChild(t, "TestChildLeakInABubble")
	assert.Regexp(t, `(?s)scopetest: shop/fetch still runs \(straggler, 2s old\), started at .*blocked goroutines remain`, out)
}

// The same with many at a time, each with the leaks of its own and of nobody else.
func TestNoTestIsBlamedForAnother(t *testing.T) {
	const tests = 8
	release := make(chan struct{})
	recorders := make([]*recorder, tests)
	t.Run("tests", func(t *testing.T) {
		for i := range recorders {
			r := record(t)
			recorders[i] = r
			t.Run("", func(t *testing.T) {
				t.Parallel()
				ctx := scopetest.Context(r, scopetest.Grace(200*time.Millisecond))
				running := make(chan struct{}, i)
				go func() {
					_ = scope.Run(ctx, "shop", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
						for range i {
							s.Go("fetch", func(context.Context) error { running <- struct{}{}; <-release; return nil })
						}
						return nil
					})
				}()
				for range i {
					<-running
				}
				r.end()
			})
		}
	})
	close(release)
	for i, r := range recorders {
		assert.Len(t, r.failures, i)
	}
}
