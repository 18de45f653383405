package scope_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

const childEnv = "CURFEW_TEST_CHILD"

var children = map[string]func(){
	// The body waits for what only the panicked task would have sent.
	"deaf body": func() {
		scope.Run(context.Background(), "shop", budget.Within(20*time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
			s.SetPanicGrace(50 * time.Millisecond)
			s.Go("feeder", func(context.Context) error { return explode("ouch") })
			select {}
		})
		os.Exit(0)
	},
	// The body returns at about the instant at which its grace ends.
	"race with the grace": func() {
		for begun := false; !begun; { // on a busy machine the deadline may come before Go
			scope.Run(context.Background(), "shop", budget.Within(time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
				s.SetPanicGrace(time.Millisecond)
				deadline, _ := ctx.Deadline()
				s.Go("feeder", func(context.Context) error { return explode("ouch") })
				begun = s.Stats().Started > 0
				<-time.After(time.Until(deadline.Add(100 * time.Millisecond)))
				return nil
			})
		}
		os.Exit(0)
	},
	"main returns right after the join": func() {
		scope.Run(context.Background(), "shop", budget.Within(time.Second), func(ctx context.Context, s *scope.Scope) error {
			s.Go("feeder", func(context.Context) error { return explode("ouch") })
			return nil
		})
		os.Exit(0)
	},
	// The owner is inside bounded blocks: the clock stands still.
	"detached and cleanup": func() {
		v := recovered(func() {
			scope.Run(context.Background(), "shop", budget.Within(20*time.Millisecond).Cleanup(5*time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
				s.SetPanicGrace(10 * time.Millisecond)
				s.Go("feeder", func(context.Context) error { return explode("ouch") })
				_, cancel := budget.Detached(ctx, time.Minute)
				defer cancel()
				<-time.After(400 * time.Millisecond)
				return nil
			})
		})
		fmt.Printf("raised %T\n", v)
		os.Exit(0)
	},
	"crash on stragglers": func() {
		scope.Run(context.Background(), "shop", budget.Within(20*time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
			s.SetStragglers(10*time.Millisecond, scope.Crash)
			s.Go("deaf", deafFor(time.Hour))
			return nil
		})
		os.Exit(0)
	},
	"orphan panics": func() {
		release := make(chan struct{})
		scope.Run(context.Background(), "shop", budget.Within(20*time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
			s.SetStragglers(10*time.Millisecond, scope.Abandon)
			s.Go("deaf", func(context.Context) error { <-release; return explode("ouch") })
			return nil
		})
		close(release)
		select {}
	},
	"root work panics": func() {
		scope.NewRoot("shop").Go(context.Background(), "mail", budget.Within(time.Hour), func(context.Context) error { return explode("ouch") })
		select {}
	},
	"body panic over a deaf task": func() {
		scope.Run(context.Background(), "shop", budget.Within(20*time.Millisecond), func(ctx context.Context, s *scope.Scope) error {
			s.SetPanicGrace(50 * time.Millisecond)
			s.Go("deaf", func(context.Context) error { select {} })
			return explode("body")
		})
		os.Exit(0)
	},
}

func TestMain(m *testing.M) {
	if f, ok := children[os.Getenv(childEnv)]; ok {
		f()
		os.Exit(3) // every child decides on its own end
	}
	slog.SetLogLoggerLevel(slog.LevelError) // tests that are about stragglers look for their reports
	os.Exit(m.Run())
}

// runChild returns a child's exit code, its output and how long it ran.
func runChild(t *testing.T, name string) (code int, output string, took time.Duration) {
	t.Helper()
	require.Contains(t, children, name)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name, "GOTRACEBACK=single")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return cmd.ProcessState.ExitCode(), string(out), time.Since(start)
}

func TestCase01_DeafBodyDiesFromTheChildsGoroutine(t *testing.T) {
	code, out, took := runChild(t, "deaf body")
	assert.Equal(t, 2, code)
	assert.Less(t, took, 30*time.Second, "a body that never ends does not hide the panic")
	_, crash, ok := strings.Cut(out, "panic: ")
	require.True(t, ok, out)
	assert.Contains(t, crash, "ouch [recovered, repanicked]")
	assert.Contains(t, crash, "scope_test.explode", "the crash shows the child's frames")
	assert.Contains(t, crash, "scope.(*task).run", "on the child's goroutine")
	assert.Contains(t, out, "ERROR scope: task panicked", "and the stack was logged at once")
}

func TestABodysPanicIsNotHiddenByADeafTask(t *testing.T) {
	code, out, _ := runChild(t, "body panic over a deaf task")
	assert.Equal(t, 2, code)
	assert.Contains(t, out, "panic: body [recovered, repanicked]")
	assert.Contains(t, out, "scope_test.explode")
}

func TestPanicClockStandsStillInDetachedBlocksAndCleanups(t *testing.T) {
	code, out, _ := runChild(t, "detached and cleanup")
	assert.Equal(t, 0, code, out)
	assert.Contains(t, out, "raised *scope.PanicError")
}

func TestCase02_ProcessNeverExitsZeroAfterAPanic(t *testing.T) {
	for _, name := range []string{"main returns right after the join", "race with the grace"} {
		t.Run(name, func(t *testing.T) {
			const width = 4
			runs := stress.Rounds(100) // a thousand in make stress
			var wg sync.WaitGroup
			for range width {
				wg.Go(func() {
					for range runs / width {
						code, out, _ := runChild(t, name)
						if !assert.Equal(t, 2, code, out) || !assert.Contains(t, out, "scope_test.explode") {
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
