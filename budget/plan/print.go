package plan

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Slush returns what slush takes at each level of the tree, the root's first:
// the most that one call of that level loses. Their sum bounds what the longest
// chain of hops loses.
func (p *Plan) Slush() []time.Duration {
	var levels []time.Duration
	for _, s := range p.calls {
		for len(levels) <= s.depth {
			levels = append(levels, 0)
		}
		levels[s.depth] = max(levels[s.depth], s.slush)
	}
	return levels
}

// String returns the tree, one line for each call: its name, the timeout of one
// attempt, and what of that goes where. "spare" is what nothing needs.
func (p *Plan) String() string {
	rows := p.root.rows(nil, "", "")
	var widths [2]int
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %s", widths[0], row[0], widths[1], row[1], row[2])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// rows appends a row for s and each call below. first leads to the name, then
// to the names below.
func (s *share) rows(rows [][3]string, first, then string) [][3]string {
	timeout := s.timeout.String()
	if n := s.call.tries(); n > 1 {
		timeout += fmt.Sprintf(" × %d", n)
	}
	var notes []string
	note := func(name string, d time.Duration) {
		if d > 0 {
			notes = append(notes, fmt.Sprintf("%s %v", name, d))
		}
	}
	note("slush", s.slush)
	note("own", s.call.Own)
	note("reserve", s.reserve)
	note("floor", s.call.Floor)
	if len(s.below) > 0 {
		note("spare", s.spare)
	}
	if s.call.Optional {
		notes = append(notes, "optional")
	}
	if s.call.Parallel {
		notes = append(notes, "parallel")
	}
	rows = append(rows, [3]string{first + s.call.Name, timeout, strings.Join(notes, ", ")})
	for i, child := range s.below {
		if i < len(s.below)-1 {
			rows = child.rows(rows, then+"├ ", then+"│ ")
		} else {
			rows = child.rows(rows, then+"└ ", then+"  ")
		}
	}
	return rows
}
