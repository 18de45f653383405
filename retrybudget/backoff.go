package retrybudget

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Backoff says how long to wait before a retry. The ceiling doubles with each
// attempt, from Base to Max, and Jitter says where below it the wait is drawn.
// The zero Backoff works: full jitter, from 50 ms to 20 s, the figures that the
// AWS SDK for Go v2 uses since 2026.
type Backoff struct {
	Base   time.Duration // ceiling of the first wait; default 50 ms; negative panics in Do
	Max    time.Duration // no ceiling is above it; default 20 s; negative, or below Base, panics in Do
	Jitter Jitter
}

// A Jitter says how a wait is drawn below a ceiling. Without one, callers that
// failed together come back together.
type Jitter uint8

// The jitters. Names and forms are those of the AWS Architecture Blog,
// "Exponential Backoff And Jitter".
const (
	FullJitter         Jitter = iota // anything up to the ceiling; spreads best
	EqualJitter                      // half of the ceiling, and anything up to the other half
	DecorrelatedJitter               // from Base up to three times the wait before, Max at most
	NoJitter                         // the ceiling itself, for tests and callers that are alone
)

const (
	defaultBase = 50 * time.Millisecond
	defaultMax  = 20 * time.Second

	// longest is what more than nine years comes to, so that doubling and adding
	// never wrap around: "no Max" is often written as the largest Duration.
	longest = time.Duration(1) << 58
)

func (b *Backoff) settle() {
	if b.Base < 0 || b.Max < 0 {
		panic(fmt.Sprintf("retrybudget: Do: negative Backoff: Base %v, Max %v", b.Base, b.Max))
	}
	if b.Base == 0 {
		b.Base = defaultBase
	}
	if b.Max == 0 {
		b.Max = max(defaultMax, b.Base)
	}
	if b.Max < b.Base {
		panic(fmt.Sprintf("retrybudget: Do: Backoff: Max %v is below Base %v", b.Max, b.Base))
	}
	if b.Jitter > NoJitter {
		panic(fmt.Sprintf("retrybudget: Do: Backoff: unknown Jitter %d", b.Jitter))
	}
	b.Base, b.Max = min(b.Base, longest), min(b.Max, longest)
}

// ceiling returns the longest wait after attempt n, whose own wait before, if
// any, was last.
func (b *Backoff) ceiling(n int, last time.Duration) time.Duration {
	if b.Jitter == DecorrelatedJitter {
		if last == 0 {
			return min(3*b.Base, b.Max)
		}
		return min(b.Max, max(b.Base, 3*min(last, b.Max)))
	}
	c := b.Base
	for ; n > 1 && c < b.Max; n-- {
		c *= 2
	}
	return min(c, b.Max)
}

// draw returns a wait of at most ceiling. It is above zero: a retry never comes
// at once.
func (b *Backoff) draw(ceiling time.Duration) time.Duration {
	from := time.Duration(0)
	switch b.Jitter {
	case NoJitter:
		return ceiling
	case EqualJitter:
		from = ceiling / 2
	case DecorrelatedJitter:
		from = min(b.Base, ceiling-1)
	}
	return from + 1 + rand.N(ceiling-from)
}
