package ctxnode_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A gate is a number that goroutines wait for.
type gate struct {
	mu   sync.Mutex
	cond ctxnode.Cond
	at   int
}

func (g *gate) await(at int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.at < at {
		g.cond.Wait(&g.mu)
	}
}

func TestAWakeReachesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		var past atomic.Int32
		for range 20 {
			go func() {
				g.await(1)
				past.Add(1)
			}()
		}
		synctest.Wait() // to wait for a Cond is durable
		g.mu.Lock()
		g.cond.Wake() // and what is not so yet is waited for again
		g.mu.Unlock()
		synctest.Wait()
		assert.Zero(t, past.Load())
		g.mu.Lock()
		g.at = 1
		g.cond.Wake()
		g.mu.Unlock()
		synctest.Wait()
		assert.EqualValues(t, 20, past.Load())
	})
}

func TestWhoHasTakenTheSleepersWakesThemAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		var early, late atomic.Bool
		go func() { g.await(1); early.Store(true) }()
		synctest.Wait()
		g.mu.Lock()
		taken := g.cond.Take()
		g.mu.Unlock()
		go func() { g.await(2); late.Store(true) }()
		synctest.Wait()
		g.mu.Lock()
		g.at = 2
		g.mu.Unlock()
		synctest.Wait()
		assert.False(t, early.Load(), "nobody has woken it")
		taken.Wake()
		synctest.Wait()
		assert.True(t, early.Load())
		assert.False(t, late.Load(), "it came later")
		g.mu.Lock()
		g.cond.Wake()
		g.mu.Unlock()
		synctest.Wait()
		assert.True(t, late.Load())
		ctxnode.Sleepers{}.Wake()
	})
}

// Sleepers serve one Cond after another. Here they go to and fro between many, half of
// them woken behind the lock.
func TestSleepersThatServeAgainAreNotMistaken(t *testing.T) {
	const rounds = 300
	var all sync.WaitGroup
	for range 8 {
		var g gate
		for range 3 {
			all.Go(func() {
				for i := range rounds {
					g.await(i + 1)
				}
			})
		}
		all.Go(func() {
			for i := range rounds {
				g.mu.Lock()
				g.at++
				if i%2 == 0 {
					g.cond.Wake()
					g.mu.Unlock()
					continue
				}
				taken := g.cond.Take()
				g.mu.Unlock()
				taken.Wake()
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("somebody was not woken")
	}
}

// An ear is an Owner that counts what it is told.
type ear struct{ told, looksAfter int }

func (e *ear) Ended(_ *ctxnode.Ending, watched bool) bool {
	e.told++
	if !watched {
		e.looksAfter++
	}
	return true
}

func TestAQuietOwnerIsNotToldOfAnEndThatIsLookedAfter(t *testing.T) {
	end := &ctxnode.Ending{Cause: context.Canceled, Err: context.Canceled}
	var above, quiet, loud, inside ear
	var root, a, b, below ctxnode.Node
	root.Owner, a.Owner, b.Owner, below.Owner = &above, &quiet, &loud, &inside
	a.Quiet, below.Quiet = true, true
	root.Start(context.Background(), time.Time{}, false)
	a.Start(&root.View, time.Time{}, false)
	b.Start(&root.View, time.Time{}, false)
	below.Start(&b.View, time.Time{}, false)
	done := a.Done()
	assert.True(t, root.End(end))
	<-done
	assert.Equal(t, ear{1, 1}, above)
	assert.Equal(t, ear{}, quiet)
	assert.Equal(t, ear{1, 0}, loud)
	assert.Equal(t, ear{}, inside)
	assert.Error(t, below.Err())

	var alone ear
	var n ctxnode.Node
	n.Owner, n.Quiet = &alone, true
	n.Start(context.Background(), time.Time{}, false)
	n.End(end)
	assert.Equal(t, ear{1, 1}, alone, "nobody above looks after it")
}
