package scope_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/stress"
	"github.com/curfew-go/curfew/scope"
)

// busyShop calls look while the tree has one of everything.
func busyShop(t *testing.T, look func(*scope.Root)) {
	root := scope.NewRoot("shop")
	ctx, cancel := context.WithCancel(root.Context()) // as net/http makes one for a request
	defer cancel()
	require.NoError(t, root.Serve("consumer", func(ctx context.Context) error { <-scope.Stopping(ctx); return nil }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		scope.Run(ctx, "checkout", budget.Within(10*time.Second), func(ctx context.Context, s *scope.Scope) error {
			s.SetSlots(2)
			s.SetStragglers(100*time.Millisecond, scope.Abandon)
			s.Service().Go("writer", func(ctx context.Context) error { <-ctx.Done(); return nil })
			synctest.Wait()
			s.Go("inventory", func(ctx context.Context) error {
				return scope.Run(ctx, "warehouse", budget.Within(5*time.Second), func(ctx context.Context, s *scope.Scope) error {
					s.Go("stock", func(ctx context.Context) error { time.Sleep(3 * time.Second); return nil })
					return nil
				})
			})
			synctest.Wait()
			s.Optional(budget.Within(time.Second)).Go("deaf", deafFor(4*time.Second))
			synctest.Wait()
			go s.Go("queued", func(context.Context) error { return nil })
			time.Sleep(5 * time.Second)
			return nil
		})
	}()
	time.Sleep(500 * time.Millisecond)
	look(root)
	time.Sleep(time.Second)
	look(root)
	<-done
	look(root)
	require.NoError(t, drainWithin(t, root, time.Second))
}

func TestTheLiveTreeAsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts []string
		busyShop(t, func(r *scope.Root) {
			var b strings.Builder
			require.NoError(t, r.WriteText(&b))
			texts = append(texts, b.String())
		})
		want, err := os.ReadFile("testdata/tree.txt")
		require.NoError(t, err)
		assert.Equal(t, string(want), strings.Join(texts, "--\n"))
	})
}

func TestTheLiveTreeAsJSON(t *testing.T) {
	type node struct {
		Name    string
		State   string
		Age     float64  `json:"age_ms"`
		Left    *float64 `json:"left_ms"`
		Overdue float64  `json:"overdue_ms"`
		Cause   string
		Holding []string
		Waiting []string
		Orphans int
		Service bool
		Tasks   []node
		Scopes  []node
	}
	find := func(in []node, name string) *node {
		for i := range in {
			if in[i].Name == name {
				return &in[i]
			}
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		var trees []node
		busyShop(t, func(r *scope.Root) {
			var b bytes.Buffer
			require.NoError(t, r.WriteJSON(&b))
			var n node
			require.NoError(t, json.Unmarshal(b.Bytes(), &n), b.String())
			trees = append(trees, n)
		})
		shop := trees[0]
		assert.Equal(t, "shop", shop.Name)
		assert.NotNil(t, find(shop.Tasks, "consumer"))
		checkout := find(shop.Scopes, "checkout")
		require.NotNil(t, checkout, "although net/http stands between the two contexts")
		assert.InDelta(t, 500, checkout.Age, 0.1)
		require.NotNil(t, checkout.Left)
		assert.InDelta(t, 9500, *checkout.Left, 0.1)
		assert.Equal(t, []string{"shop/checkout/queued"}, checkout.Waiting)
		assert.Len(t, checkout.Holding, 2)
		assert.True(t, find(checkout.Tasks, "writer").Service)
		warehouse := find(find(checkout.Tasks, "inventory").Scopes, "warehouse")
		require.NotNil(t, warehouse, "a scope hangs in the task that opened it")
		assert.Equal(t, "running", find(warehouse.Tasks, "stock").State)

		later := find(trees[1].Scopes, "checkout")
		deaf := find(later.Tasks, "deaf")
		assert.Equal(t, "orphan", deaf.State)
		assert.InDelta(t, 500, deaf.Overdue, 0.1)
		assert.Contains(t, deaf.Cause, "deadline exceeded")
		assert.Equal(t, 1, later.Orphans)
		assert.Nil(t, find(later.Tasks, "queued"), "it got its slot and is done")

		assert.Empty(t, trees[2].Scopes, "what is over is gone")
	})
}

func TestATreeShowsACleanupThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := scope.NewRoot("shop")
		require.NoError(t, scope.Run(root.Context(), "checkout", budget.Within(time.Second), func(_ context.Context, s *scope.Scope) error {
			s.Cleanup("unlock", func(ctx context.Context) error {
				return scope.Run(ctx, "release", budget.Inherited(), func(context.Context, *scope.Scope) error {
					var b strings.Builder
					require.NoError(t, root.WriteText(&b))
					assert.Contains(t, b.String(), "scope checkout: cleaning up (unlock)")
					assert.Contains(t, b.String(), "scope release: open")
					return nil
				})
			})
			return nil
		}))
	})
}

func TestATreeShowsThatALimitWasChanged(t *testing.T) {
	v := budget.NewVar("route maximum", 2*time.Second, time.Second, time.Minute)
	root := scope.NewRoot("shop")
	require.NoError(t, v.Store(5*time.Second))
	require.NoError(t, scope.Run(root.Context(), "checkout", v.Limit(), func(context.Context, *scope.Scope) error {
		var b strings.Builder
		require.NoError(t, root.WriteText(&b))
		assert.Contains(t, b.String(), "(route maximum 5s (was 2s))")
		return nil
	}))
}

// TestAHugeTreeIsWrittenWithoutStoppingTheSpawners: a hundred thousand tasks are
// written in little memory, while others spawn.
func TestAHugeTreeIsWrittenWithoutStoppingTheSpawners(t *testing.T) {
	n := 100_000
	if raceEnabled {
		n = 20_000
	}
	root := scope.NewRoot("shop")
	require.NoError(t, scope.Run(root.Context(), "crowd", budget.Within(time.Hour), func(ctx context.Context, s *scope.Scope) error {
		release := make(chan struct{})
		for range n {
			s.Go("parked", func(context.Context) error { <-release; return nil })
		}
		inUse := func() int64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapInuse)
		}
		var spawned atomic.Int64
		lines := &lineCounter{spawned: &spawned, look: inUse}
		runtime.GC()
		base := inUse()
		require.NoError(t, root.WriteText(lines))
		assert.GreaterOrEqual(t, lines.n, n)
		assert.Less(t, lines.most-base, int64(32<<20))
		t.Logf("%d lines, at most %d KiB more in use", lines.n, (lines.most-base)/1024)
		runtime.GC()
		base = inUse()
		asJSON := &lineCounter{spawned: &spawned, look: inUse}
		require.NoError(t, root.WriteJSON(asJSON))
		assert.Less(t, asJSON.most-base, int64(32<<20))
		t.Logf("as JSON at most %d KiB more in use", (asJSON.most-base)/1024)

		stop, stopped := make(chan struct{}), make(chan struct{})
		var longest time.Duration
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					start := time.Now()
					s.Go("short", func(context.Context) error { return nil })
					longest = max(longest, time.Since(start))
					spawned.Add(1)
				}
			}
		}()
		lines = &lineCounter{spawned: &spawned}
		require.NoError(t, root.WriteText(lines))
		close(stop)
		<-stopped
		t.Logf("%d tasks spawned between the first and the last line, the slowest in %v", lines.until-lines.from, longest)
		if stress.Level() > 0 {
			assert.Less(t, longest, time.Second, "no lock is held for the length of the tree")
		}
		assert.GreaterOrEqual(t, lines.n, n)
		assert.Greater(t, lines.until-lines.from, int64(100), "spawners went on")
		close(release)
		return nil
	}))
}

// A lineCounter counts lines, looks at the memory in use, and at what was spawned
// between the first line and the last.
type lineCounter struct {
	n           int
	look        func() int64
	most        int64
	spawned     *atomic.Int64
	from, until int64
}

func (c *lineCounter) Write(p []byte) (int, error) {
	if c.n == 0 {
		c.from = c.spawned.Load()
	}
	c.until = c.spawned.Load()
	c.n += bytes.Count(p, []byte("\n"))
	if c.look != nil {
		c.most = max(c.most, c.look())
	}
	return len(p), nil
}

func TestATreeReportsAFailedWrite(t *testing.T) {
	root := scope.NewRoot("shop")
	r, w := io.Pipe()
	r.Close()
	assert.ErrorIs(t, root.WriteText(w), io.ErrClosedPipe)
	assert.ErrorIs(t, root.WriteJSON(w), io.ErrClosedPipe)
}
