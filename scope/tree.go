package scope

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/internal/ctxnode"
)

// The live tree of a Root: scopes hang in the task, or the body, that opened them,
// for as long as something in them runs. It is walked a few tasks at a time: no
// lock is held for the length of a list, and nothing is copied whole.

// joinTree hangs c where it was opened.
func (c *core) joinTree() {
	root := c.env.root
	p := &treePlace{began: time.Now(), above: &root.core}
	switch t, up := opener(c.node.Above()); {
	case t != nil && t.more != nil && t.core.env != nil && t.core.env.root == root:
		p.home, p.above = t, t.core
	case up != nil && up.env != nil && up.env.root == root:
		p.above = up
	}
	c.place = p
	p.above.node.Mu.Lock()
	defer p.above.node.Mu.Unlock()
	list := p.listLocked()
	if p.next = *list; p.next != nil {
		p.next.place.prev = c
	}
	*list = c
}

// listLocked returns the list that the scope hangs in.
func (p *treePlace) listLocked() **core {
	if p.home != nil {
		return &p.home.more.inner
	}
	return &p.above.place.inner
}

// leaveTree takes c from the tree once it is closed and has no orphans.
func (c *core) leaveTree() {
	p := c.place
	if p == nil || p.above == nil {
		return
	}
	c.node.Mu.Lock()
	over := c.phase == closed && c.left == nil
	c.node.Mu.Unlock()
	if !over {
		return
	}
	p.above.node.Mu.Lock()
	defer p.above.node.Mu.Unlock()
	if p.gone {
		return
	}
	p.gone = true
	if p.prev != nil {
		p.prev.place.next = p.next
	} else {
		*p.listLocked() = p.next
	}
	if p.next != nil {
		p.next.place.prev = p.prev
	}
	p.prev, p.next = nil, nil
	p.above.node.Idle.Wake() // a Root that drains waits for what hangs in it
}

// A scopeLine is what the tree tells of one scope.
type scopeLine struct {
	Name     string   `json:"name"`
	State    string   `json:"state"` // open, closing, cleaning up, closed
	Cleanup  string   `json:"cleanup,omitempty"`
	Age      millis   `json:"age_ms"`
	Left     *millis  `json:"left_ms,omitempty"`
	Limit    string   `json:"limit,omitempty"` // its own, as it is now
	Cause    string   `json:"cause,omitempty"`
	Overdue  millis   `json:"overdue_ms,omitempty"`
	Live     int      `json:"live"`
	Started  int      `json:"started"`
	Skipped  int      `json:"skipped,omitempty"`
	Orphans  int      `json:"orphans,omitempty"`
	Slots    int      `json:"slots,omitempty"`
	Holding  []string `json:"holding,omitempty"`
	Waiting  []string `json:"waiting,omitempty"`
	children []*core
}

// A taskLine is what the tree tells of one task.
type taskLine struct {
	Name    string  `json:"name"`
	State   string  `json:"state"` // running, waiting for a slot, overdue, straggler, panicked, orphan
	Service bool    `json:"service,omitempty"`
	Attempt bool    `json:"attempt,omitempty"` // of a race
	Age     millis  `json:"age_ms"`
	Left    *millis `json:"left_ms,omitempty"`
	Limit   string  `json:"limit,omitempty"`
	Cause   string  `json:"cause,omitempty"`
	Overdue millis  `json:"overdue_ms,omitempty"`
	ended   error   // what Cause is the text of
	inner   []*core
}

type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Round(time.Microsecond)) / 1e6)
}

func (m millis) String() string {
	d := time.Duration(m)
	if d > time.Second || d < -time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func (r *Root) write(w io.Writer, to treeWriter) error {
	b := bufio.NewWriterSize(w, 64<<10)
	k := treeWalk{w: b, to: to}
	k.scope(&r.core, 0, true)
	return b.Flush()
}

type treeWalk struct {
	w  *bufio.Writer
	to treeWriter
}

func (k *treeWalk) scope(c *core, depth int, first bool) {
	line, orphans := c.line()
	k.to.scope(k.w, line, depth, first)
	k.to.tasks(k.w)
	n := 0
	put := func(l *taskLine) {
		l.Cause = causeText(l.ended)
		k.to.task(k.w, l, depth+1, n == 0)
		n++
		k.to.inTask(k.w)
		for i, inner := range l.inner {
			k.scope(inner, depth+2, i == 0)
		}
		k.to.end(k.w)
	}
	c.eachTask(put)
	for i := range orphans {
		put(&orphans[i])
	}
	k.to.inBody(k.w)
	for i, inner := range line.children {
		k.scope(inner, depth+1, i == 0)
	}
	k.to.end(k.w)
}

// line tells of c as it is now, and of its orphans.
func (c *core) line() (l *scopeLine, orphans []taskLine) {
	now := time.Now()
	l = &scopeLine{Name: c.node.Name}
	if s := c.slots.Load(); s != nil && c.ownSlotsNow() {
		l.Slots = s.size
		q := s.queue
		q.mu.Lock()
		l.Holding, l.Waiting = q.holding.paths(), q.waiting.paths()
		q.mu.Unlock()
	}
	var ended error
	defer func() { l.Cause = causeText(ended) }() // not under the lock
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	l.State = [...]string{"open", "closing", "cleaning up", "closed"}[c.phase]
	l.Cleanup = c.cleaningUp
	if c.place != nil {
		l.Age = millis(now.Sub(c.place.began))
	}
	l.Left, l.Overdue, ended = endOf(&c.node, now)
	l.Limit = limitOf(&c.node)
	l.Live, l.Started, l.Skipped, l.Orphans = c.liveLocked(), c.begunLocked(), c.skipped, c.orphans
	for in := c.innerLocked(); in != nil; in = in.place.next {
		l.children = append(l.children, in)
	}
	for t := c.left; t != nil; t = t.next {
		orphans = append(orphans, t.lineLocked(now))
	}
	return l, orphans
}

func (c *core) ownSlotsNow() bool {
	c.node.Mu.Lock()
	defer c.node.Mu.Unlock()
	return c.ownSlots
}

// causeText is the text of what ended a context. An error of the caller's may
// stand behind it: its Error method is called without a lock, and one that panics,
// such as that of a nil pointer, costs its own line and not the whole tree.
func causeText(cause error) string {
	if cause == nil {
		return ""
	}
	return fmt.Sprint(cause)
}

// limitOf tells which limit a context has of its own, empty for none. That of a
// budget.Var says when it has changed since.
func limitOf(n *ctxnode.Node) string {
	l, _ := n.Limit.(*budget.Limit)
	if l == nil {
		return ""
	}
	if s := l.String(); s != inherited {
		return s
	}
	return ""
}

var inherited = budget.Inherited().String()

// endOf tells how a context stands towards its end.
func endOf(n *ctxnode.Node, now time.Time) (left *millis, overdue millis, cause error) {
	if e := n.Ending(); e != nil {
		if !e.At.IsZero() {
			overdue = millis(now.Sub(e.At))
		}
		return nil, overdue, e.Cause
	}
	if d, ok := n.Deadline(); ok {
		m := millis(d.Sub(now))
		left = &m
	}
	return left, 0, nil
}

func (t *task) lineLocked(now time.Time) taskLine {
	l := taskLine{Name: t.title(), State: "running", Service: t.mode&service != 0, Attempt: t.mode&attempt != 0}
	l.Left, l.Overdue, l.ended = endOf(t.context().Node(), now)
	if t.node != nil {
		l.Limit = limitOf(t.node)
	}
	switch {
	case t.abandoned:
		l.State = "orphan"
	case t.panicking:
		l.State = "panicked"
	case t.reported:
		l.State = "straggler"
	case t.ending() != nil:
		l.State = "overdue"
	}
	if m := t.more; m != nil {
		if !m.began.IsZero() {
			l.Age = millis(now.Sub(m.began))
		}
		if m.hold != nil && l.State == "running" && m.hold.waits() {
			l.State = "waiting for a slot"
		}
		for in := m.inner; in != nil; in = in.place.next {
			l.inner = append(l.inner, in)
		}
	}
	return l
}

func (h *hold) waits() bool {
	h.slots.queue.mu.Lock()
	defer h.slots.queue.mu.Unlock()
	return h.state == waiting
}

// eachTask calls f for the live tasks of c, the youngest first. Those that begin
// meanwhile are not among them.
func (c *core) eachTask(f func(*taskLine)) {
	const batch = 128
	place := &task{mode: marker}
	lines := make([]taskLine, 0, batch)
	c.node.Mu.Lock()
	c.linkLocked(place)
	for {
		now := time.Now()
		lines = lines[:0]
		for t := place.next; t != nil && len(lines) < batch; t = place.next {
			if t.mode&marker == 0 && !t.overLocked() {
				lines = append(lines, t.lineLocked(now))
			}
			c.moveBehindLocked(place, t)
		}
		if len(lines) == 0 {
			c.unlinkLocked(place)
			c.node.Mu.Unlock()
			return
		}
		c.node.Mu.Unlock()
		for i := range lines {
			f(&lines[i])
		}
		c.node.Mu.Lock()
	}
}

// moveBehindLocked moves place, which stands right before t, behind it.
func (c *core) moveBehindLocked(place, t *task) {
	c.unlinkLocked(place)
	place.prev, place.next = t, t.next
	if t.next != nil {
		t.next.prev = place
	}
	t.next = place
}
