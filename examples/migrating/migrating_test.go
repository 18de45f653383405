package migrating

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/scopetest"
)

var items = []string{"lamp", "chair", "desk", "shelf"}

// answering is a shop whose services take tens of milliseconds, the less the longer
// the item's name is. When it is failing, desks are sold out.
func answering(failing bool) *Shop {
	number := func(ctx context.Context, item string) (int, error) {
		if failing && item == "desk" {
			return 0, errSoldOut
		}
		select {
		case <-time.After(time.Duration(10-len(item)) * 10 * time.Millisecond):
			return len(item), nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	call := func(ctx context.Context, item string) error { _, err := number(ctx, item); return err }
	return &Shop{Stock: number, Price: number, Refresh: call, Mail: call}
}

// Where nothing is surprising both ways come to the same.
func TestBothWaysDoTheSame(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after func(ctx context.Context, shop *Shop) (any, error)
	}{
		{"page",
			func(ctx context.Context, shop *Shop) (any, error) { return shop.pageErrgroup(ctx, "desk") },
			func(ctx context.Context, shop *Shop) (any, error) { return shop.pageScope(ctx, "desk") }},
		{"refresh",
			func(ctx context.Context, shop *Shop) (any, error) { return nil, shop.refreshErrgroup(ctx, items) },
			func(ctx context.Context, shop *Shop) (any, error) { return nil, shop.refreshEach(ctx, items) }},
		{"refresh with slots",
			func(ctx context.Context, shop *Shop) (any, error) { return nil, shop.refreshErrgroup(ctx, items) },
			func(ctx context.Context, shop *Shop) (any, error) {
				return nil, shop.refreshSlots(ctx, [][]string{items[:2], items[2:]})
			}},
		{"refresh, all errors",
			func(ctx context.Context, shop *Shop) (any, error) { return nil, shop.refreshPool(ctx, items) },
			func(ctx context.Context, shop *Shop) (any, error) { return nil, shop.refreshKeepGoing(ctx, items) }},
		{"stream",
			func(ctx context.Context, shop *Shop) (any, error) {
				return shown(func(f func(int)) error { return shop.printStream(ctx, items, f) })
			},
			func(ctx context.Context, shop *Shop) (any, error) {
				return shown(func(f func(int)) error { return shop.printMapSeq(ctx, items, f) })
			}},
		{"wait group",
			func(ctx context.Context, shop *Shop) (any, error) {
				_, err := shop.pricesWaitGroup(ctx, items)
				return nil, err
			},
			func(ctx context.Context, shop *Shop) (any, error) {
				_, err := shop.pricesMap(ctx, items)
				return nil, err
			}},
	} {
		for _, failing := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				compare := func(t *testing.T) {
					ctx := scopetest.Context(t)
					before, errBefore := tt.before(ctx, answering(failing))
					after, errAfter := tt.after(ctx, answering(failing))
					assert.Equal(t, failing, errBefore != nil)
					assert.Equal(t, failing, errAfter != nil)
					assert.Equal(t, errors.Is(errBefore, errSoldOut), errors.Is(errAfter, errSoldOut))
					if !failing { // a failure cancels what conc's stream lets go on
						assert.Equal(t, before, after)
					}
				}
				if tt.name == "stream" {
					compare(t) // conc's stream keeps channels in a pool, which two bubbles must not share
				} else {
					synctest.Test(t, compare)
				}
			})
		}
	}
}

func shown(f func(func(int)) error) (all []int, err error) {
	err = f(func(price int) { all = append(all, price) })
	return all, err
}

// conc's results come in the order in which the tasks ended, scope's in that of the
// items.
func TestMapKeepsTheOrderOfTheItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := scopetest.Context(t)
		shop := answering(false)
		before, err := shop.pricesPool(ctx, items)
		require.NoError(t, err)
		after, err := shop.pricesMap(ctx, items)
		require.NoError(t, err)
		assert.Equal(t, []int{4, 5, 4, 5}, after)
		assert.NotEqual(t, after, before, "the longer names take less time")
		assert.Equal(t, slices.Sorted(slices.Values(after)), slices.Sorted(slices.Values(before)))
	})
}

func TestBothShedWhatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := scopetest.Context(t)
		many := slices.Repeat([]string{"lamp"}, 20)
		for _, warm := range []func(context.Context, []string) (int, error){answering(false).warmErrgroup, answering(false).warmScope} {
			shed, err := warm(ctx, many)
			assert.NoError(t, err)
			assert.Equal(t, 12, shed)
		}
	})
}

// At most eight run at once, in the whole tree.
func TestSlotsBoundTheWholeTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live, most atomic.Int64
		shop := &Shop{Refresh: func(context.Context, string) error {
			most.Store(max(most.Load(), live.Add(1)))
			time.Sleep(time.Second)
			live.Add(-1)
			return nil
		}}
		shelves := slices.Repeat([][]string{items}, 20)
		began := time.Now()
		require.NoError(t, shop.refreshSlots(scopetest.Context(t), shelves))
		assert.LessOrEqual(t, most.Load(), int64(8))
		assert.GreaterOrEqual(t, time.Since(began), 10*time.Second, "80 calls of a second, eight at once")
	})
}

func TestAnOptionalTaskLeavesNobodyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		shop := &Shop{
			Price: answering(false).Price,
			Reviews: func(ctx context.Context, _ string) ([]string, error) {
				running.Add(1)
				defer running.Add(-1)
				select {
				case <-time.After(time.Second):
					return []string{"good"}, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			},
		}
		ctx := scopetest.Context(t)
		assert.Nil(t, shop.reviewsTimer(ctx, "desk"))
		assert.EqualValues(t, 1, running.Load(), "it goes on after the answer")
		time.Sleep(time.Second)

		page, missing, err := shop.reviewsOptional(ctx, "desk")
		assert.NoError(t, err)
		assert.Equal(t, Page{Price: 4}, page)
		require.Len(t, missing, 1)
		assert.Equal(t, "reviews", missing[0].Task)
		assert.Zero(t, running.Load())
	})
}

func TestBothMailsOutliveTheRequestAndOneHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := scopetest.Context(t)
		root := scopetest.Root(ctx, "shop")
		root.SetTrace(&scope.Trace{TaskFailed: func(string, string, error) {}})
		var sent sync.WaitGroup
		var bounded []bool
		shop := &Shop{Mail: func(ctx context.Context, _ string) error {
			defer sent.Done()
			_, ok := ctx.Deadline()
			bounded = append(bounded, ok)
			time.Sleep(time.Second)
			return ctx.Err()
		}}
		request, answered := context.WithCancel(ctx)
		sent.Add(1)
		shop.mailGo(request, "you")
		synctest.Wait()
		sent.Add(1)
		require.NoError(t, shop.mailRoot(request, root, "you"))
		answered()
		sent.Wait()
		assert.Equal(t, []bool{false, true}, bounded)
		require.NoError(t, root.Drain(ctx))
		assert.ErrorIs(t, shop.mailRoot(ctx, root, "you"), scope.ErrClosed)
	})
}

// The panic of a task comes back from both, and only one of them also cancels the
// other task.
func TestBothBringAPanicBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := scope.WithTrace(scopetest.Context(t), &scope.Trace{TaskPanicked: func(*scope.PanicError) {}})
		shop := answering(false)
		shop.Mail = func(context.Context, string) error { panic("boom") }
		began := time.Now()
		assert.Panics(t, func() { shop.bothWaitGroup(ctx, "desk") })
		assert.Equal(t, 60*time.Millisecond, time.Since(began))
		began = time.Now()
		assert.Panics(t, func() { _ = shop.bothScope(ctx, "desk") })
		assert.Zero(t, time.Since(began))
	})
}

// Both servers answer, stop when they are told, and have let go of their listener.
func TestBothServeUntilTheyAreTold(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, bounded := budget.Remaining(r.Context())
		assert.False(t, bounded)
		_, _ = io.WriteString(w, "hello")
	})
	for name, serve := range map[string]func(*Shop, context.Context, net.Listener, http.Handler) error{
		"oklog/run": (*Shop).serveGroup, "curfew": (*Shop).serveRoot,
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- serve(&Shop{}, ctx, l, hello) }()

			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get("http://" + l.Addr().String())
			require.NoError(t, err)
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			assert.Equal(t, "hello", string(body))

			cancel()
			if err := <-ended; name == "curfew" {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, context.Canceled, "run.Group returns what the first actor did")
			}
			_, err = net.Dial("tcp", l.Addr().String())
			assert.Error(t, err)
		})
	}
}
