package retrybudget

// aSecond as a setting: hedges may save up what a second's successes earn.
const aSecond = -1

// payHedge spends cost of the credit for a hedge, and describes it in g. Hedges
// leave the last half to retries, and go at a pace of their own: an account of the
// same earnings of which all that is above their burst has expired. So they spend
// what is earned while they ask, and not what was earned long before, when the
// target was faster.
//
// Refused: a shorter life of credit for hedges. However short it is, the credit of
// one life at the old rate is there when the rate falls: with a second of it, hedges
// after a step to a fourth of the rate were 41% of a second's calls at a Ratio of 10%.
func (c *core) payHedge(now int64, g *grant, cost, earned, expired uint64) bool {
	keep := (earned - expired) / 2
	if c.own.fresh(earned, expired) < cost+keep {
		return false
	}
	var paced stretch
	if !takeAny(&c.pace, &paced, cost, 0, earned, c.outpaced(now, earned, expired)) {
		return false
	}
	if c.own.take(&g.spent, cost, keep, earned, expired) {
		return true
	}
	c.pace.giveBack(paced, c.outpaced(now, earned, expired)) // another taker was faster
	return false
}

// outpaced returns how much of what was earned lies beyond the burst of hedges.
func (c *core) outpaced(now int64, earned, expired uint64) uint64 {
	burst := uint64(c.hedgeBurst)
	if c.hedgeBurst == aSecond {
		burst = max(minCarried, perSecond(earned-expired, now-c.oldest.Load()))
	}
	return earned - burst // wraps around below zero, which counts of an account may
}

// hedgeTokens returns how many hedges in a row credit pays for, and whether their
// pace is what allows no more.
func (c *core) hedgeTokens(now int64) (n uint64, paced bool) {
	expired := c.expired.Load()
	earned := c.successes.Load() * c.ppm
	fresh := c.own.fresh(earned, expired)
	n = (fresh - min(fresh, (earned-expired)/2)) / perToken
	pace := c.pace.tokens(earned, c.outpaced(now, earned, expired))
	return min(n, pace), pace < n
}
