package scope_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/curfew-go/curfew/internal/stress"
)

// treeCount is how many random trees one run of the tests plays, half of them
// in bubbles; with -short it is a tenth, which does not show every outcome.
const treeCount = 200_000

// TestRandomTrees plays random trees of scopes against the oracle. A failure
// names a seed; CURFEW_SEED=seed plays that tree alone, often.
func TestRandomTrees(t *testing.T) {
	if seed, err := strconv.ParseUint(os.Getenv("CURFEW_SEED"), 10, 64); err == nil {
		replay(t, seed)
		return
	}
	r := &treeRun{T: t, pairs: possiblePairs(), last: uint64(stress.Rounds(treeCount))}
	if testing.Short() {
		r.last /= 10
	}
	r.playAll()
	r.report()
}

// replay plays one tree: once in a bubble, where nothing changes, often outside.
func replay(t *testing.T, seed uint64) {
	n := 20
	if seed%2 == 1 {
		n = 20_000
	}
	r := &treeRun{T: t, pairs: possiblePairs()}
	for range n {
		r.play(seed)
		if t.Failed() {
			return
		}
	}
}

// A treeRun plays trees and counts what they came to.
type treeRun struct {
	*testing.T
	last uint64
	next atomic.Uint64

	mu      sync.Mutex
	pairs   map[string]int
	trees   int
	scopes  int
	tasks   int // planned and started, or skipped
	planned int
	failed  int
}

const (
	chunk = 10_000 // how many trees are played before the goroutines are counted
	batch = 10     // how many seeds a worker takes, every other one for a bubble
)

func (r *treeRun) playAll() {
	base := runtime.NumGoroutine()
	for r.next.Load() < r.last && !r.Failed() {
		end := min(r.next.Load()+chunk, r.last)
		var workers sync.WaitGroup
		for range 4 * runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				for {
					first := r.next.Add(batch) - batch
					if first >= end {
						return
					}
					var even []uint64
					for seed := first; seed < first+batch; seed += 2 {
						even = append(even, seed)
						r.play(seed + 1)
					}
					r.play(even...)
				}
			})
		}
		workers.Wait()
		r.next.Store(end)
		settle(r.T, base)
	}
}

// settle waits until no more than base goroutines are left.
func settle(t *testing.T, base int) {
	for range 1_000_000 {
		if runtime.NumGoroutine() <= base {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines are left\n%s", runtime.NumGoroutine()-base, goroutines())
}

func goroutines() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 2)
	return b.String()
}

// play plays the trees of some seeds, together when they are for a bubble.
func (r *treeRun) play(seeds ...uint64) {
	// A hang must name its seeds: this is the one timer outside a bubble, and
	// nothing waits for it.
	watchdog := time.AfterFunc(2*time.Minute, func() {
		fmt.Fprintf(os.Stderr, "one of CURFEW_SEED=%d hangs\n%s\n", seeds, goroutines())
		os.Exit(2)
	})
	defer watchdog.Stop()
	defer func() {
		if v := recover(); v != nil { // synctest: a deadlock, or a goroutine left in the bubble
			r.fail(fmt.Sprint("one of ", seeds), fmt.Sprint(v))
		}
	}()
	plays := make([]*play, len(seeds))
	all := func() {
		var trees sync.WaitGroup
		for i, seed := range seeds {
			trees.Go(func() { plays[i] = playTree(planTree(seed)) })
		}
		trees.Wait()
	}
	if seeds[0]%2 == 0 {
		synctest.Test(r.T, func(*testing.T) { all() })
	} else {
		all()
	}
	for _, p := range plays {
		r.judge(p)
	}
}

func (r *treeRun) judge(p *play) {
	pairs, wrong := p.judge()
	if len(wrong) > 0 {
		r.fail(fmt.Sprint(p.seed), strings.Join(wrong, "\n"))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trees++
	r.scopes += len(p.scopes)
	r.tasks += len(p.byName)
	r.planned += p.tasks
	for _, pair := range pairs {
		r.pairs[pair]++
	}
}

// fail reports the first few trees that went wrong.
func (r *treeRun) fail(seed, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed++; r.failed <= 5 {
		r.Errorf("replay with CURFEW_SEED=%s:\n%s", seed, what)
	} else {
		r.Fail()
	}
}

// report prints the counts, and fails for a pair that did not occur.
func (r *treeRun) report() {
	var b strings.Builder
	fmt.Fprintf(&b, "%d trees, %.1f scopes and %.1f tasks per tree (%.1f planned)\n", r.trees, float64(r.scopes)/float64(r.trees), float64(r.tasks)/float64(r.trees), float64(r.planned)/float64(r.trees))
	var names []string
	for name := range r.pairs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%9d  %s\n", r.pairs[name], name)
		if r.pairs[name] == 0 && !testing.Short() && r.failed == 0 {
			r.Errorf("never seen: %s", name)
		}
	}
	r.Log(b.String())
}
