package scope_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

type planner struct {
	*rand.Rand
	*treePlan
	left int // tasks still to be planned
}

// planTree makes the plan of a seed.
func planTree(seed uint64) *treePlan {
	p := &planner{Rand: rand.New(rand.NewPCG(seed, 0xc0ffee)), treePlan: &treePlan{seed: seed, bubble: seed%2 == 0}}
	p.coarse = p.one(4)
	switch p.pick(8, 36, 38, 18) {
	case 0:
		p.left = 1 + p.IntN(3)
	case 1:
		p.left = 4 + p.IntN(7)
	case 2:
		p.left = 11 + p.IntN(14)
	default:
		p.left = 25 + p.IntN(40)
	}
	p.entry = entryKind(p.pick(760, 80, 40, 60, 40, 8, 6, 6))
	p.entryD = p.instant()
	root := p.scope(1)
	root.name = fmt.Sprint("seed-", seed)
	switch p.entry {
	case entryNoDeadline:
		root.limit = limitInherited
	case entryDeadline, entryForeignDeadline:
	default:
		if root.limit == limitInherited {
			root.limit = limitLong
		}
	}
	p.root = root
	return p.treePlan
}

// one answers true one time in n.
func (p *planner) one(n int) bool { return p.IntN(n) == 0 }

// pick returns an index, as often as its weight says.
func (p *planner) pick(weights ...int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	n := p.IntN(sum)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	panic("unreachable")
}

func (p *planner) name(prefix string) string {
	p.made++
	return fmt.Sprint(prefix, p.made)
}

// instant is a time since the tree's start, in a bubble one of its own unless
// the plan is coarse. Running free it is a number of yields.
func (p *planner) instant() time.Duration {
	p.made++
	switch {
	case !p.bubble:
		return time.Duration(p.IntN(30))
	case p.coarse:
		return time.Duration(p.IntN(8)) * 5 * time.Millisecond
	}
	return time.Duration(1+p.IntN(40))*time.Millisecond + time.Duration(p.made)*time.Microsecond
}

// short is a length of time, in a bubble one that leads to instants of its own.
func (p *planner) short() time.Duration {
	p.made++
	switch {
	case !p.bubble:
		return time.Duration(20+p.IntN(400)) * time.Microsecond
	case p.coarse:
		return time.Duration(1+p.IntN(4)) * 5 * time.Millisecond
	}
	return time.Duration(1+p.IntN(20))*time.Millisecond + time.Duration(p.made)*time.Nanosecond
}

func (p *planner) scope(depth int) *scopePlan {
	sp := &scopePlan{name: p.name("s"), depth: depth, d: p.short()}
	p.scopes++
	st := story(p.pick(45, 20, 15, 12, 8))
	switch {
	case st == storyDeadline:
		sp.limit = limitShort
	case p.one(120):
		sp.limit = limitExpired
	case p.one(120):
		sp.limit = limitTooLittle
	default:
		sp.limit = limitKind(p.pick(60, 35, 5))
	}
	sp.cleanup = cleanupKind(p.pick(80, 5, 15))
	sp.onError = errorPolicy(p.pick(55, 20, 25))
	sp.rethrow = p.one(2)
	sp.body = p.body(sp, st)
	return sp
}

func (p *planner) body(sp *scopePlan, st story) *taskPlan {
	b := &taskPlan{}
	for n := 2 + p.IntN(7); n > 0; n-- {
		if p.one(5) {
			b.steps = append(b.steps, p.pause())
		}
		switch {
		case p.left <= 0:
			n = 1
		case sp.depth < 6 && (p.one(7) || st == storyCancel && p.one(5)):
			b.steps = append(b.steps, step{kind: stepNested, scope: p.scope(sp.depth + 1)})
		default:
			kind := stepSpawn
			if p.one(8) {
				kind = stepTaskWait
			}
			b.steps = append(b.steps, step{kind: kind, task: p.task(sp, st)})
		}
		if st == storyCancel && p.one(3) || p.one(60) {
			b.steps = append(b.steps, p.pause(), step{kind: stepCancel, as: p.IntN(3)})
		}
		if p.one(25) {
			b.steps = append(b.steps, step{kind: stepWait})
		}
	}
	b.end = p.bodyEnd(st)
	p.manners(b)
	return b
}

func (p *planner) pause() step {
	return step{kind: stepPause, at: p.instant(), deaf: p.one(4)}
}

func (p *planner) task(sp *scopePlan, st story) *taskPlan {
	p.left--
	p.tasks++
	tp := &taskPlan{name: p.name("t"), via: viaGo, limit: p.short()}
	switch {
	case p.one(3):
		tp.via = viaFork
	case p.one(5):
		tp.via = viaLimit + via(p.IntN(int(viaCount-viaLimit)))
	}
	for n := p.pick(50, 35, 15); n > 0; n-- {
		switch p.pick(40, 16, 4, 32, 4) {
		case 0:
			tp.steps = append(tp.steps, p.pause())
		case 1:
			if p.left > 0 {
				kind := stepSpawn
				if p.one(4) {
					kind = stepTaskWait
				}
				tp.steps = append(tp.steps, step{kind: kind, task: p.task(sp, st)})
			}
		case 2:
			if st == storyCancel || p.one(4) {
				tp.steps = append(tp.steps, step{kind: stepCancel, as: p.IntN(3)})
			}
		case 3:
			if sp.depth < 6 && p.left > 0 {
				tp.steps = append(tp.steps, step{kind: stepNested, scope: p.scope(sp.depth + 1)})
			}
		case 4:
			if sp.depth > 1 && p.left > 0 {
				tp.steps = append(tp.steps, step{kind: stepSpawnUp, task: p.task(sp, st)})
			}
		}
	}
	tp.end = p.taskEnd(st)
	if tp.via == viaLimit && p.one(2) {
		tp.end = endOwnLimit
	}
	p.manners(tp)
	return tp
}

func (p *planner) taskEnd(st story) end {
	switch st {
	case storyPlain:
		return end(p.pick(180, 1, 1, 1, 5, 2, 1, 2, 1, 1, 1))
	case storyFailure:
		return end(p.pick(40, 16, 6, 5, 12, 6, 3, 3, 4, 8, 3))
	case storyDeadline, storyCancel:
		return end(p.pick(25, 1, 1, 1, 20, 10, 6, 14, 14, 8, 5))
	}
	return end(p.pick(20, 10, 8, 8, 10, 8, 6, 10, 10, 10, 4))
}

func (p *planner) bodyEnd(st story) end {
	if p.one(3) {
		return endWait + end(p.IntN(4))
	}
	if e := p.taskEnd(st); e != endPanic && e != endGoexit && e != endLatePanic || p.one(3) {
		return e
	}
	return endNil
}

func (p *planner) manners(tp *taskPlan) {
	tp.obedient = !p.one(4)
	tp.patience = 45*time.Millisecond + p.instant()
	tp.linger = p.short()
	tp.errValue = p.one(4)
}
