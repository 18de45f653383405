package curfewhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

// The handler's scope ends with the request: at the deadline, or when the
// client leaves; and its tasks with it.
func TestTasksOfAHandlerEndWithTheRequest(t *testing.T) {
	type end struct {
		err   error
		cause error
	}
	for _, tt := range []struct {
		name  string
		value string
		leave bool
		err   error
		kind  budget.Kind
		text  string
	}{
		{"the deadline passes", "60", false, context.DeadlineExceeded, budget.DeadlineExceeded, "limit peer header X-Request-Deadline-Ms 60ms"},
		{"the client leaves", "60000", true, context.Canceled, budget.ClientCancelled, "client cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				const tasks = 3
				running := make(chan struct{}, tasks)
				ended := make(chan end, tasks)
				verdict := make(chan error, 1)
				s := start(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					err := scope.Run(r.Context(), "order", budget.Inherited(), func(ctx context.Context, s *scope.Scope) error {
						for i := range tasks {
							s.Go(fmt.Sprint("task ", i), func(ctx context.Context) error {
								running <- struct{}{}
								<-ctx.Done()
								ended <- end{ctx.Err(), context.Cause(ctx)}
								return context.Cause(ctx)
							})
						}
						return s.Wait()
					})
					verdict <- err
					http.Error(w, "late", budget.KindOf(err).HTTPStatus())
				}), curfewhttp.Config{Max: time.Minute}))

				ctx, leave := context.WithCancel(context.Background())
				defer leave()
				go func() {
					for range tasks {
						<-running
					}
					if tt.leave {
						leave()
					}
				}()
				resp, err := s.Client().Do(s.request(t, ctx, tt.value))
				if tt.leave {
					assert.ErrorIs(t, err, context.Canceled)
				} else if assert.NoError(t, err) {
					resp.Body.Close()
					assert.Equal(t, 504, resp.StatusCode, "the handler answers for itself")
				}
				for range tasks {
					e := within(t, ended, "a task to end")
					assert.Equal(t, tt.err, e.err)
					assert.Equal(t, tt.kind, budget.KindOf(e.cause))
					assert.ErrorContains(t, e.cause, tt.text)
				}
				err = within(t, verdict, "Run to return")
				assert.Equal(t, tt.kind, budget.KindOf(err))
				assert.ErrorIs(t, err, tt.err)
			})
		})
	}
}

// Panics: net/http knows http.ErrAbortHandler by identity, and logs the others.
func TestPanicsOfAHandlerPassUnchanged(t *testing.T) {
	quiet := func(ctx context.Context) context.Context {
		return scope.WithTrace(ctx, &scope.Trace{TaskPanicked: func(*scope.PanicError) {}})
	}
	inTask := func(v any) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			_ = scope.Run(quiet(r.Context()), "order", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Go("load", func(context.Context) error { panic(v) })
				return nil
			})
		}
	}
	inNestedTask := func(v any) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			_ = scope.Run(quiet(r.Context()), "order", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
				s.Go("load", func(ctx context.Context) error {
					return scope.Run(ctx, "inner", budget.Inherited(), func(_ context.Context, s *scope.Scope) error {
						s.Go("deep", func(context.Context) error { panic(v) })
						return nil
					})
				})
				return nil
			})
		}
	}
	inBody := func(v any) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			_ = scope.Run(r.Context(), "order", budget.Inherited(), func(context.Context, *scope.Scope) error { panic(v) })
		}
	}
	direct := func(v any) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { panic(v) }
	}
	boom := errors.New("boom")
	for _, tt := range []struct {
		name  string
		h     http.HandlerFunc
		want  any // what net/http gets; nil: a *scope.PanicError
		value any // of the PanicError
		quiet bool
	}{
		{"abort in a task", inTask(http.ErrAbortHandler), http.ErrAbortHandler, nil, true},
		{"abort in a nested task", inNestedTask(http.ErrAbortHandler), http.ErrAbortHandler, nil, true},
		{"abort in the body", inBody(http.ErrAbortHandler), http.ErrAbortHandler, nil, true},
		{"abort in the handler", direct(http.ErrAbortHandler), http.ErrAbortHandler, nil, true},
		{"an error in the handler", direct(boom), boom, nil, false},
		{"a string in the handler", direct("boom"), "boom", nil, false},
		{"a string in the body", inBody("boom"), "boom", nil, false},
		{"a string in a task", inTask("boom"), nil, "boom", false},
		{"an error in a task", inTask(boom), nil, boom, false},
		{"a string in a nested task", inNestedTask("boom"), nil, "boom", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := curfewhttp.Handler(tt.h, curfewhttp.Config{Max: time.Minute})
			got := func() (v any) {
				defer func() { v = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
				return nil
			}()
			if tt.want != nil {
				assert.Equal(t, tt.want, got)
			} else if assert.IsType(t, &scope.PanicError{}, got) {
				assert.Equal(t, tt.value, got.(*scope.PanicError).Value)
				assert.Contains(t, string(got.(*scope.PanicError).Stack), "handler_tasks_test.go", "the task's own stack")
			}

			protocols(t, func(t *testing.T, start func(http.Handler) *server) {
				s := start(h)
				_, err := s.Client().Do(s.request(t, t.Context()))
				assert.Error(t, err, "the connection or the stream breaks off")
				s.Close()
				if tt.quiet {
					assert.Empty(t, s.log.String(), "net/http takes it for what it is")
				} else { // for HTTP/2 after the stream was reset
					assert.Eventually(t, func() bool { return strings.Contains(s.log.String(), "boom") }, patience, ms)
				}
			})
		})
	}
}

// A handler that ends its goroutine is not kept from it.
func TestGoexitOfAHandlerPasses(t *testing.T) {
	h := curfewhttp.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		(&testing.T{}).SkipNow() // runtime.Goexit
	}), curfewhttp.Config{})
	var after atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		after.Store(true)
	}()
	within(t, done, "the goroutine to end")
	assert.False(t, after.Load())
}
