package wire

import (
	"time"

	"github.com/curfew-go/curfew/budget"
)

// A Peer is what one value, or all those on a request, say about the time that the
// peer gives. The zero Peer says nothing.
type Peer struct {
	// Limited says that the peer sets a limit, and Left how much it is, by Read
	// less Waited, but for an instant, which went on meanwhile. Left is never
	// negative; zero means that the time has run out.
	Limited bool
	Left    time.Duration
	// Header is the name of the header that set the limit.
	Header string
	// Waited is how long the request stood in a queue of a proxy, as RequestStart says.
	Waited time.Duration
	// Skewed is whether an instant was not believed, because the clocks differ.
	Skewed bool
	// Malformed is how many values were left out because they were malformed.
	Malformed int
}

// Read merges what a request says in all of forms: of several values, of repeated
// headers or of different ones, the strictest counts. values returns all values of
// a header, such as http.Header.Values. now is when the request arrived.
//
// The error is the *FormatError of the first malformed value, and the Peer is what
// the others say. What to do is the caller's policy: a trusted peer's request is
// answered with 400 (InvalidArgument), an edge goes on with the Peer and counts
// Malformed. Where a queue time is malformed, which the peer does not write, it is
// counted and no error.
func Read(values func(header string) []string, now time.Time, forms ...Form) (Peer, error) {
	var all Peer
	for _, f := range forms {
		f.mustBeOne() // whether or not there is a value for it
		if f.grammar != requestStart {
			continue
		}
		for _, value := range values(f.header) {
			if p, err := f.Parse(value, now); err != nil {
				all.Malformed++
			} else {
				all.Waited = max(all.Waited, p.Waited)
			}
		}
	}
	var first error
	for _, f := range forms {
		if f.grammar == requestStart {
			continue
		}
		for _, value := range values(f.header) {
			p, err := f.parse(value, now, all.Waited)
			if err != nil {
				if all.Malformed++; first == nil {
					first = err
				}
				continue
			}
			all.add(p)
		}
	}
	return all, first
}

// add merges what p says.
func (all *Peer) add(p Peer) {
	all.Skewed = all.Skewed || p.Skewed
	if !p.Limited {
		return
	}
	if !all.Limited || p.Left < all.Left {
		all.Limited, all.Left, all.Header = true, p.Left, p.Header
	}
}

// Limit returns the limit of work that p was read for: max, which is the local
// maximum, less what the request waited, capped at what the peer gives. A cause
// names both, as in "peer header grpc-timeout 300ms < route maximum 2s". Enter it
// at once, since it counts from entry. Work under it is never given more than max,
// and never more than the peer asked for.
func (p Peer) Limit(max budget.Limit) budget.Limit {
	max = max.Spent(p.Waited)
	if !p.Limited {
		return max
	}
	return max.AtMost(p.Left, "peer header "+p.Header)
}
