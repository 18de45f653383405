package latency

import "time"

// knowing says how much a Snapshot tells about a quantile.
type knowing uint8

const (
	tooFew  knowing = iota // attempts; the duration is what it is at least, or 0
	beyond                 // what was seen; the duration is what it is at least
	reached                // the duration is the quantile
)

// enough is how many attempts the warm-up rule wants on the rarer side of a
// quantile, and how many must have lasted as long. With ten, the share beyond
// the quantile is known to about a third: one over the root of ten.
const enough = 10

// Quantile returns the time within which a share q of the attempts would be
// answered if none were cut off, and true. It returns 0 and false while there
// are too few attempts to tell, and when too many were cut off to see that far,
// what the quantile is at least, and false. A q that is not between 0 and 1
// panics.
func (s *Snapshot) Quantile(q float64) (d time.Duration, ok bool) {
	mustBeShare("Quantile: q", q)
	d, known := s.quantile(q)
	if known == tooFew {
		return 0, false
	}
	return d, known == reached
}

// Quantile returns that of what the window holds now. It is for reports and
// for checks such as plan.Check; what is asked at each call are the answers of
// Typical, Timeout and HedgeDelay, which are kept a while.
func (o *Observed) Quantile(q float64) (d time.Duration, ok bool) {
	mustBeShare("Quantile: q", q)
	return o.Snapshot().Quantile(q)
}

// quantile walks the Kaplan-Meier curve: in each bucket, of the attempts still
// running, the share that was answered leaves the curve; those cut off leave
// the number of the running ones alone. The walk ends where fewer than enough
// are running, since each step would then be a guess.
func (s *Snapshot) quantile(q float64) (time.Duration, knowing) {
	var running uint64
	for i := range s.answered {
		running += s.answered[i] + s.cutOff[i]
	}
	missing := beyond
	if float64(running)*min(q, 1-q)*(1+rounding) < enough {
		missing = tooFew
	}
	wanted := (1 - q) * (1 + rounding)
	left, last := 1.0, time.Duration(0)
	for i := range s.answered {
		answered, cutOff := s.answered[i], s.cutOff[i]
		if answered+cutOff == 0 {
			continue
		}
		if running < enough {
			break
		}
		left *= 1 - float64(answered)/float64(running)
		last = middleOf(i)
		if left <= wanted {
			if missing == tooFew {
				break
			}
			return last, reached
		}
		running -= answered + cutOff
	}
	return last, missing
}

// rounding forgives what floating point adds up to over all buckets, so that
// exactly 999 of 1000 answers reach p99.9.
const rounding = 1e-9
