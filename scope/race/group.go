package race

import (
	"context"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// A group is the node of all attempts but the first of a hedge.
type group struct {
	ctxnode.Node
	contest *contest
}

// EndPath is that of the race, as for the first attempt of a hedge.
func (g *group) EndPath() string { return g.contest.path(g.Parent()) }

// enterGroup begins the race with a group.
func (c *contest) enterGroup(ctx context.Context, limit *budget.Limit, now time.Time) error {
	g := &group{contest: c}
	g.Owner = g
	c.group = g
	return ctxnode.Hooks.Enter(&g.Node, ctx, limit, now)
}

// regroup returns the group of a race that goes on, made by now.
func (c *contest) regroup() *group {
	c.mu.Lock()
	g, only := c.group, c.entrants // under one hold: with the group others come
	c.mu.Unlock()
	if g != nil {
		return g
	}
	// What bounds the first attempt bounds the others: the limit is what it was at the
	// beginning.
	first := only.handle.Node()
	g = &group{contest: c}
	g.Owner, g.Limit = g, first.Limit
	deadline, _ := first.Deadline()
	parents, bounded := first.Parent().Deadline()
	g.Start(first.Parent(), deadline, !bounded || deadline.Before(parents))
	c.mu.Lock()
	other := c.group
	if other == nil {
		c.group = g
	}
	over := c.refs == 0 // the caller has unwound meanwhile, and nobody will stop g
	c.mu.Unlock()
	if other != nil || over {
		g.Stop()
	}
	if other != nil {
		return other
	}
	return g
}

// Ended is called when the context has ended, before that of an attempt has.
func (g *group) Ended(_ *ctxnode.Ending, watched bool) bool {
	g.contest.endedBy(&g.Node)
	return watched
}

// hold keeps the group where it hangs until drop is called.
func (c *contest) hold() {
	c.mu.Lock()
	c.refs++
	c.mu.Unlock()
}

// drop undoes one hold. The last one takes the group from what it hangs under,
// without ending it: those below have ended.
func (c *contest) drop() {
	c.mu.Lock()
	last := c.dropLocked()
	c.mu.Unlock()
	if last {
		c.group.Stop()
	}
}

// dropLocked is drop for a caller that stops the group when it answers true.
func (c *contest) dropLocked() (last bool) {
	c.refs--
	return c.refs == 0 && c.group != nil
}
