package ctxnode_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
)

// opened is a context of ours below parent, opened in one of several ways.
// Every way must meet the ends of the same ancestors.
var openings = []struct {
	name string
	open func(t *testing.T, parent context.Context, limit budget.Limit, use func(context.Context))
}{
	{"Enter", func(t *testing.T, parent context.Context, limit budget.Limit, use func(context.Context)) {
		ctx, cancel, err := budget.Enter(parent, limit)
		require.NoError(t, err)
		defer cancel()
		use(ctx)
	}},
	{"Run", func(t *testing.T, parent context.Context, limit budget.Limit, use func(context.Context)) {
		_ = scope.Run(parent, "inner", limit, func(ctx context.Context, s *scope.Scope) error {
			use(ctx)
			return nil
		})
	}},
	{"task", func(t *testing.T, parent context.Context, limit budget.Limit, use func(context.Context)) {
		_ = scope.Run(parent, "inner", limit, func(ctx context.Context, s *scope.Scope) error {
			s.Go("task", func(ctx context.Context) error { use(ctx); return nil })
			return nil
		})
	}},
}

// inBubbleForEachOpening runs f in a bubble for each way to open a context.
func inBubbleForEachOpening(t *testing.T, f func(t *testing.T, open func(parent context.Context, limit budget.Limit, use func(context.Context)))) {
	for _, o := range openings {
		t.Run(o.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f(t, func(parent context.Context, limit budget.Limit, use func(context.Context)) {
					used := false
					o.open(t, parent, limit, func(ctx context.Context) { used = true; use(ctx) })
					require.True(t, used, "not opened")
				})
			})
		})
	}
}

// WithoutCancel drops the end on purpose. Its values still lead to the scope
// above, which must not be taken for the parent.
func TestNothingIsAttachedBelowWithoutCancel(t *testing.T) {
	inBubbleForEachOpening(t, func(t *testing.T, open func(context.Context, budget.Limit, func(context.Context))) {
		root := context.WithValue(context.Background(), key("user"), "ann")
		outer, cancel, err := budget.Enter(root, budget.Within(time.Second).Named("outer"))
		require.NoError(t, err)
		for name, loose := range map[string]context.Context{
			"WithoutCancel":                  context.WithoutCancel(outer),
			"WithValue of WithoutCancel":     context.WithValue(context.WithoutCancel(outer), key("a"), 1),
			"WithoutCancel of WithValue":     context.WithoutCancel(context.WithValue(outer, key("a"), 1)),
			"WithoutCancel of a std child":   context.WithoutCancel(child(t, outer)),
			"std child below WithoutCancel":  child(t, context.WithoutCancel(outer)),
			"std timer below WithoutCancel":  timed(t, context.WithoutCancel(outer), time.Hour),
			"WithoutCancel of WithoutCancel": context.WithoutCancel(context.WithoutCancel(outer)),
		} {
			linked := ctxnode.Find(outer).Node().Linked()
			open(loose, budget.Within(time.Minute), func(ctx context.Context) {
				assert.Equal(t, "ann", ctx.Value(key("user")), name)
				assert.Equal(t, linked, ctxnode.Find(outer).Node().Linked(), "%s: attached to the context above", name)
				d, ok := ctx.Deadline()
				assert.True(t, ok, name)
				assert.Equal(t, time.Minute, time.Until(d), "%s: the dropped deadline came back", name)
			})
		}
		// And at the end of the one above nothing happens below.
		ended := false
		open(context.WithoutCancel(outer), budget.Within(time.Minute), func(ctx context.Context) {
			cancel()
			time.Sleep(10 * time.Second) // also past the outer deadline
			synctest.Wait()
			assert.NoError(t, ctx.Err())
			assert.NoError(t, context.Cause(ctx))
			select {
			case <-ctx.Done():
				t.Error("the end came through WithoutCancel")
			default:
			}
			ended = true
		})
		assert.True(t, ended)
	})
}

// A limit of Inherited needs a deadline that really reaches it.
func TestInheritedBelowWithoutCancelHasNothingToInherit(t *testing.T) {
	outer := enter(t, context.Background(), budget.Within(time.Second))
	_, _, err := budget.Enter(context.WithoutCancel(outer), budget.Inherited())
	assert.ErrorIs(t, err, budget.ErrNoDeadline)
	err = scope.Run(context.WithoutCancel(outer), "s", budget.Inherited(), func(context.Context, *scope.Scope) error { return nil })
	assert.ErrorIs(t, err, budget.ErrNoDeadline)
}

func child(t testing.TB, parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	t.Cleanup(cancel)
	return ctx
}

func timed(t testing.TB, parent context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(parent, d)
	t.Cleanup(cancel)
	return ctx
}

// Between our context and the one above it may stand std contexts that end
// earlier. Whichever end comes first must win, with its own cause.
func TestTheTighterEndOfAStdContextInBetweenWins(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name    string
		between func(t *testing.T, outer context.Context) (between context.Context, act func())
		after   time.Duration // when it ends
		err     error
		kind    budget.Kind
		is      error // what the cause matches besides err
		outers  bool  // the cause is the outer context's own
	}{
		{
			name: "std timeout, tighter",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				return timed(t, outer, time.Second), nil
			},
			after: time.Second, err: context.DeadlineExceeded, kind: budget.DeadlineExceeded,
		},
		{
			name: "std timeout behind values, tighter",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				return context.WithValue(timed(t, context.WithValue(outer, key("a"), 1), time.Second), key("b"), 2), nil
			},
			after: time.Second, err: context.DeadlineExceeded, kind: budget.DeadlineExceeded,
		},
		{
			name: "std timeout with a cause, tighter",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				ctx, cancel := context.WithTimeoutCause(outer, time.Second, boom)
				t.Cleanup(cancel)
				return ctx, nil
			},
			after: time.Second, err: context.DeadlineExceeded, kind: budget.DeadlineExceeded, is: boom,
		},
		{
			name: "std timeout, wider",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				return timed(t, outer, time.Hour), nil
			},
			after: 10 * time.Second, err: context.DeadlineExceeded, kind: budget.DeadlineExceeded, outers: true,
		},
		{
			name: "std cancel, called",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				return context.WithCancel(outer)
			},
			after: 0, err: context.Canceled, kind: budget.ParentCancelled,
		},
		{
			name: "std cancel with a cause, called",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancelCause(outer)
				return ctx, func() { cancel(boom) }
			},
			after: 0, err: context.Canceled, kind: budget.ParentCancelled, is: boom,
		},
		{
			name: "std cancel, not called",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				return child(t, outer), nil
			},
			after: 10 * time.Second, err: context.DeadlineExceeded, kind: budget.DeadlineExceeded, outers: true,
		},
		{
			name: "values only",
			between: func(t *testing.T, outer context.Context) (context.Context, func()) {
				return context.WithValue(context.WithValue(outer, key("a"), 1), key("b"), 1), nil
			},
			after: 10 * time.Second, err: context.DeadlineExceeded, kind: budget.DeadlineExceeded, outers: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubbleForEachOpening(t, func(t *testing.T, open func(context.Context, budget.Limit, func(context.Context))) {
				outer := enter(t, context.Background(), budget.Within(10*time.Second).Named("outer"))
				between, act := tt.between(t, outer)
				open(between, budget.Inherited(), func(ctx context.Context) {
					start := time.Now()
					if act != nil {
						act()
					}
					<-ctx.Done()
					assert.Equal(t, tt.after, time.Since(start))
					synctest.Wait()
					assert.Equal(t, tt.err, ctx.Err())
					cause := context.Cause(ctx)
					assert.Equal(t, tt.kind, budget.KindOf(cause))
					assert.ErrorIs(t, cause, tt.err)
					if tt.is != nil {
						assert.ErrorIs(t, cause, tt.is)
					}
					if tt.outers {
						assert.Same(t, context.Cause(outer), cause)
					} else {
						assert.NoError(t, outer.Err(), "an inner end went upwards")
					}
				})
			})
		})
	}
}

// An outer expiry or cancel seen inside is the outer's: the same *Cause, not a
// copy and not a translation, however many contexts stand in between.
func TestTheCauseSeenInsideIsTheOuterOne(t *testing.T) {
	between := map[string]func(t *testing.T, outer context.Context) context.Context{
		"directly": func(t *testing.T, outer context.Context) context.Context { return outer },
		"a value": func(t *testing.T, outer context.Context) context.Context {
			return context.WithValue(outer, key("a"), 1)
		},
		"a std child":   func(t *testing.T, outer context.Context) context.Context { return child(t, outer) },
		"a std timer":   func(t *testing.T, outer context.Context) context.Context { return timed(t, outer, time.Hour) },
		"another Enter": func(t *testing.T, outer context.Context) context.Context { return enter(t, outer, budget.Inherited()) },
		"a tighter Enter": func(t *testing.T, outer context.Context) context.Context {
			return enter(t, outer, budget.Within(time.Minute))
		},
		"all of them": func(t *testing.T, outer context.Context) context.Context {
			a := enter(t, context.WithValue(child(t, outer), key("a"), 1), budget.Within(time.Minute))
			return context.WithValue(timed(t, a, time.Hour), key("b"), 2)
		},
	}
	ends := map[string]struct {
		limit budget.Limit
		end   func(cancel context.CancelFunc)
		kind  budget.Kind
		// asked says that somebody asked the outer context for Done before the end
	}{
		"deadline": {budget.Within(time.Second).Named("outer"), func(context.CancelFunc) {}, budget.DeadlineExceeded},
		"cancel":   {budget.Within(time.Hour).Named("outer"), func(cancel context.CancelFunc) { cancel() }, budget.Cancelled},
	}
	for endName, end := range ends {
		for name, derive := range between {
			for _, asked := range []bool{false, true} {
				t.Run(endName+"/"+name+map[bool]string{true: "/asked"}[asked], func(t *testing.T) {
					inBubbleForEachOpening(t, func(t *testing.T, open func(context.Context, budget.Limit, func(context.Context))) {
						outer, cancel, err := budget.Enter(context.Background(), end.limit)
						require.NoError(t, err)
						defer cancel()
						if asked {
							outer.Done()
						}
						open(derive(t, outer), budget.Inherited(), func(ctx context.Context) {
							end.end(cancel)
							<-ctx.Done()
							synctest.Wait()
							assert.Equal(t, end.kind, budget.KindOf(context.Cause(outer)))
							assert.Same(t, context.Cause(outer), context.Cause(outer), "the same on each call")
							assert.Same(t, context.Cause(outer), context.Cause(ctx))
							assert.Same(t, context.Cause(ctx), context.Cause(child(t, ctx)), "std child derived after the end")
						})
					})
				})
			}
		}
	}
}

// A parent with a deadline whose Done never closes is somebody's mistake, and
// a common one in hand-made contexts. Our deadline holds all the same.
func TestADeadlineHoldsUnderAParentThatNeverEnds(t *testing.T) {
	inBubbleForEachOpening(t, func(t *testing.T, open func(context.Context, budget.Limit, func(context.Context))) {
		open(valuesAndDeadline{context.Background(), time.Now().Add(time.Second)}, budget.Inherited(), func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
				t.Error("the deadline passed and nothing ended")
			}
			assert.Equal(t, context.DeadlineExceeded, ctx.Err())
		})
	})
}

// valuesAndDeadline is a context as people write them: values and a deadline
// of another one, without its end.
type valuesAndDeadline struct {
	context.Context
	deadline time.Time
}

func (c valuesAndDeadline) Deadline() (time.Time, bool) { return c.deadline, true }
func (c valuesAndDeadline) Done() <-chan struct{}       { return nil }
func (c valuesAndDeadline) Err() error                  { return nil }

// Custom contexts that wrap ours and embed it keep its end; ones with an end of
// their own do not.
func TestACustomContextWithItsOwnDoneIsFollowed(t *testing.T) {
	inBubbleForEachOpening(t, func(t *testing.T, open func(context.Context, budget.Limit, func(context.Context))) {
		outer := enter(t, context.Background(), budget.Within(time.Hour))
		custom := &ownEnd{Context: outer, done: make(chan struct{})}
		open(custom, budget.Inherited(), func(ctx context.Context) {
			custom.err = errCustom
			close(custom.done)
			<-ctx.Done()
			synctest.Wait()
			assert.Equal(t, errCustom, ctx.Err(), "what a custom context ended with")
			assert.ErrorIs(t, context.Cause(ctx), errCustom)
			assert.Equal(t, budget.ParentCancelled, budget.KindOf(context.Cause(ctx)))
			assert.NoError(t, outer.Err())
		})
	})
}

var errCustom = errors.New("custom end")

type ownEnd struct {
	context.Context
	done chan struct{}
	err  error
}

func (c *ownEnd) Done() <-chan struct{} { return c.done }
func (c *ownEnd) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// A task started with the values of another context hangs below its scope all
// the same: whichever of the two ends first ends it, and the tighter deadline
// holds.
func TestATaskInAnotherContextStaysBelowItsScope(t *testing.T) {
	for _, tt := range []struct {
		name  string
		in    func(t *testing.T, ctx context.Context) context.Context
		limit func(s *scope.Scope) *scope.Scope
		after time.Duration
		text  string
	}{
		{"without cancel", func(_ *testing.T, ctx context.Context) context.Context { return context.WithoutCancel(ctx) }, nil,
			10 * time.Second, "scope order, limit route maximum 10s"},
		{"without cancel, own limit tighter", func(_ *testing.T, ctx context.Context) context.Context { return context.WithoutCancel(ctx) },
			func(s *scope.Scope) *scope.Scope { return s.Limit(budget.Within(time.Second).Named("db")) },
			time.Second, "limit db 1s < route maximum 10s"},
		{"without cancel, own limit wider", func(_ *testing.T, ctx context.Context) context.Context { return context.WithoutCancel(ctx) },
			func(s *scope.Scope) *scope.Scope { return s.Limit(budget.Within(time.Minute).Named("db")) },
			10 * time.Second, "scope order, limit route maximum 10s"},
		{"a std deadline, tighter", func(t *testing.T, ctx context.Context) context.Context { return timed(t, ctx, time.Second) }, nil,
			time.Second, "limit parent deadline"},
		{"a std deadline, wider", func(t *testing.T, ctx context.Context) context.Context { return timed(t, ctx, time.Minute) }, nil,
			10 * time.Second, "scope order, limit route maximum 10s"},
		{"a std deadline below WithoutCancel, wider", func(t *testing.T, ctx context.Context) context.Context {
			return timed(t, context.WithoutCancel(ctx), time.Minute)
		}, nil, 10 * time.Second, "scope order, limit route maximum 10s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_ = scope.Run(context.Background(), "order", budget.Within(10*time.Second).Named("route maximum"), func(ctx context.Context, s *scope.Scope) error {
					h := s.In(context.WithValue(tt.in(t, ctx), key("span"), 1))
					if tt.limit != nil {
						h = tt.limit(h)
					}
					h.Go("load", func(ctx context.Context) error {
						assert.Equal(t, 1, ctx.Value(key("span")))
						left, ok := budget.Remaining(ctx)
						assert.True(t, ok)
						assert.Equal(t, tt.after, left)
						<-ctx.Done()
						assert.Equal(t, tt.after, time.Since(start))
						assert.Equal(t, context.DeadlineExceeded, ctx.Err())
						assert.ErrorContains(t, context.Cause(ctx), tt.text)
						return nil
					})
					return s.Wait()
				})
				assert.Equal(t, tt.after, time.Since(start))
			})
		})
	}
}
