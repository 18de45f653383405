package scope_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// A goroutine begins with a stack of 2 KiB. One that does not suffice is copied to a
// larger one, which costs more than the scope (docs/decisions/hot-path.md).

// ownFrames is how much of the stack the caller's own functions have in this test,
// beside the one that calls Run.
const ownFrames = 80

// stackChild says that the process was started by the test, with stacks that begin small
// whatever others need.
const stackChild = "CURFEW_STACK_CHILD"

func TestStack_ATaskThatOpensAScopeKeepsToTheFirstTwoKiB(t *testing.T) {
	inSmallStacks(t, func() { tasksThatOpenAScope(t) })
}

func tasksThatOpenAScope(t *testing.T) {
	for what, open := range map[string]func(context.Context) error{
		"and returns": func(ctx context.Context) error {
			return scope.Run(ctx, "sub", budget.Inherited(), func(context.Context, *scope.Scope) error { return nil })
		},
		"and asks for Done": func(ctx context.Context) error {
			return scope.Run(ctx, "sub", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
				select {
				case <-ctx.Done():
				default:
				}
				return nil
			})
		},
		"and starts a task": func(ctx context.Context) error {
			return scope.Run(ctx, "sub", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Go("inner", func(context.Context) error { return nil })
				return nil
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			const rounds = 100
			stayed := 0
			require.NoError(t, scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				for range rounds {
					s.Go("task", func(ctx context.Context) (err error) {
						var here byte
						before := uintptr(unsafe.Pointer(&here))
						if strings.HasSuffix(what, "Done") { // std needs most of the room
							err = open(ctx)
						} else {
							err = amongOwnFrames(ctx, open)
						}
						if uintptr(unsafe.Pointer(&here)) == before {
							stayed++ // one task at a time
						}
						return err
					})
					if err := s.Wait(); err != nil {
						return err
					}
				}
				return nil
			}))
			// What is rare, such as memory that has to be fetched from far, or a lock that
			// somebody else holds, may need more.
			require.Greater(t, stayed, rounds/2, hint, rounds)
		})
	}
}

func TestStack_ATaskWhoseScopeIsCutKeepsToTheFirstTwoKiB(t *testing.T) {
	inSmallStacks(t, func() {
		const rounds = 100
		stayed := 0
		for range rounds {
			parked := make(chan struct{})
			_ = scope.Run(t.Context(), "outer", budget.Within(time.Hour), func(_ context.Context, s *scope.Scope) error {
				s.Go("task", func(ctx context.Context) error {
					var here byte
					before := uintptr(unsafe.Pointer(&here))
					err := scope.Run(ctx, "sub", budget.Inherited(), func(ctx context.Context, _ *scope.Scope) error {
						close(parked)
						<-ctx.Done()
						return ctx.Err()
					})
					if uintptr(unsafe.Pointer(&here)) == before {
						stayed++
					}
					return err
				})
				<-parked
				s.Cancel(nil)
				return s.Wait()
			})
		}
		require.Greater(t, stayed, rounds/2, hint, rounds)
	})
}

const hint = "tasks whose stack was not copied, of %d: the frames between task.run and the bottom " +
	"have become larger than 2 KiB hold. go build -gcflags=-S lists their sizes; after a new Go version it may be the runtime's"

// inSmallStacks calls f in a process whose goroutines begin with small stacks.
func inSmallStacks(t *testing.T, f func()) {
	switch build, _ := debug.ReadBuildInfo(); {
	case raceEnabled, testing.CoverMode() != "":
		t.Skip("frames are larger with the race detector and with coverage")
	case runtime.GOARCH != "amd64":
		t.Skip("frames are counted for amd64")
	case build != nil && unoptimized(build):
		t.Skip("frames are larger without optimizations")
	}
	if os.Getenv(stackChild) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), stackChild+"=1", "GODEBUG=adaptivestackstart=0", "GOGC=off")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS", "%s", out)
		return
	}
	f()
}

func unoptimized(build *debug.BuildInfo) bool {
	for _, s := range build.Settings {
		if s.Key == "-gcflags" && (strings.Contains(s.Value, "-N") || strings.Contains(s.Value, "-l")) {
			return true
		}
	}
	return false
}

// amongOwnFrames calls open below ownFrames bytes of stack.
//
//go:noinline
func amongOwnFrames(ctx context.Context, open func(context.Context) error) error {
	var own [ownFrames - 64]byte // with what a call needs
	touch(own[:])
	err := open(ctx)
	touch(own[:])
	return err
}

//go:noinline
func touch(b []byte) { b[0]++ }
