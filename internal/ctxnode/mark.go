package ctxnode

import (
	"context"
	"fmt"
)

// A Mark is a context that adds the number of an attempt to another one and
// changes nothing else: same end, same deadline, same values. What looks for a
// View looks through it, so that a scope opened inside an attempt is attached
// as directly as one outside.
type Mark struct {
	context.Context
	Attempt int // 1 for the first
}

// markKey is the key under which a context answers the nearest Mark.
type markKey struct{}

// Value is part of context.Context.
func (m *Mark) Value(key any) any {
	if _, ok := key.(markKey); ok {
		return m
	}
	return m.Context.Value(key)
}

// String names the context as the one inside is named in the texts of std
// contexts derived from it. It prints no fields of that one, which may change.
func (m *Mark) String() string {
	if named, ok := m.Context.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", m.Context)
}

// AttemptOf returns the number of the innermost attempt that ctx belongs to,
// zero when it belongs to none.
func AttemptOf(ctx context.Context) int {
	m, ok := ctx.(*Mark)
	if !ok {
		m, _ = ctx.Value(markKey{}).(*Mark)
	}
	if m == nil {
		return 0
	}
	return m.Attempt
}

// direct returns ctx as a View if it is one, or one with marks around it.
func direct(ctx context.Context) (*View, bool) {
	for {
		switch c := ctx.(type) {
		case *View:
			return c, true
		case *Mark:
			ctx = c.Context
		default:
			return nil, false
		}
	}
}
