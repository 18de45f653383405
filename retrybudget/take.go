package retrybudget

// A grant is what take gave, for giveBack.
type grant struct {
	cost   uint64
	spent  stretch  // of the credit, or of the floor's bucket
	gained stretch  // of what the floor gained, in a Set
	lent   []taking // of what a pool lent
	from   source
	hedge  bool
}

type source uint8

const (
	fromNothing source = iota // unlimited, or only observing
	fromCredit
	fromBack // credit that somebody gave back
	fromFloor
	fromShared // the floor, out of the burst of a Set
	fromPool   // lent by the pool of a fleet
)

// take spends cost micro-tokens of credit, or else of the floor or of what the
// fleet's pool has lent, for one retry or hedge, and describes it in g. A hedge
// leaves the last half of either to retries.
func (c *core) take(g *grant, cost uint64, hedge bool) bool {
	g.cost, g.hedge = cost, hedge
	if c.unlimited {
		c.countBeside(hedge, 1)
		return true
	}
	// A granted take is the clock and one line that moves from processor to
	// processor, and about that is what it costs (BenchmarkContended). Owning the
	// line before it is read, and a path of few instructions, were tried and gained
	// nothing that could be measured.
	now := c.upToDate()
	if now < c.hold.Load() {
		return c.held(hedge)
	}
	expired := c.expired.Load()
	earned := c.successes.Load() * c.ppm
	paid := false
	if hedge {
		paid = c.payHedge(now, g, cost, earned, expired)
	} else if c.own.takeBack(&g.spent, cost, expired) {
		g.from = fromBack
		c.countBeside(hedge, 1)
		return true
	} else {
		paid = c.own.take(&g.spent, cost, 0, earned, expired)
	}
	if paid {
		g.from = fromCredit
		if hedge || cost > perToken {
			c.countApart(*g, 1)
		}
		return true
	}
	if !c.beyond(now, g) {
		c.denied(hedge)
		if c.fleet != nil {
			c.fleet.denied()
		}
		if !c.observe {
			return false
		}
	}
	c.countBeside(hedge, 1)
	return true
}

// beyond takes what does not come from own successes.
func (c *core) beyond(now int64, g *grant) bool {
	if c.fleet != nil {
		return c.fleet.take(now, g)
	}
	return c.floor.take(now, g)
}

// giveBack undoes take.
func (c *core) giveBack(g grant) {
	switch g.from {
	case fromCredit:
		c.mu.Lock()
		c.own.giveBack(g.spent, c.expired.Load())
		c.lapsed += g.cost
		c.countApart(g, -1)
		c.mu.Unlock()
		return
	case fromBack:
		c.own.giveBack(g.spent, c.expired.Load())
	case fromFloor, fromShared:
		c.floor.giveBack(c.upToDate(), g)
	case fromPool:
		c.fleet.giveBack(c.upToDate(), g)
	}
	c.countBeside(g.hedge, -1)
}

// retriesLocked returns how many retries were taken and not given back. The
// caller holds mu.
func (c *core) retriesLocked() uint64 {
	apart, others := c.apart.Load(), c.others.Load()
	return others + (c.own.used.Load()-c.lapsed)/perToken - apart
}

// extra returns how many retries and hedges were taken and not given back.
func (c *core) extra() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retriesLocked() + c.hedges.Load()
}

// countBeside counts one that cost no credit, or with -1 takes it back.
func (c *core) countBeside(hedge bool, n int) {
	if hedge {
		c.hedges.Add(uint64(n))
	} else {
		c.others.Add(uint64(n))
	}
}

// countApart counts what g cost beyond one retry, or with -1 takes it back.
func (c *core) countApart(g grant, n int) {
	apart := g.cost / perToken
	if g.hedge {
		c.hedges.Add(uint64(n))
	} else {
		apart--
	}
	c.apart.Add(apart * uint64(n))
}

func (c *core) denied(hedge bool) {
	if hedge {
		c.deniedHedges.Add(1)
	} else {
		c.deniedRetries.Add(1)
	}
}
