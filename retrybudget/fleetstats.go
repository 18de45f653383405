package retrybudget

import (
	"fmt"
	"time"
)

// FleetStats is what a member of a fleet knows of it. Without a Pool it is zero.
// Counts are since the Budget was made, in whole retries.
type FleetStats struct {
	// Mode is "joining" before the first answer of the Pool, whom a member asks
	// only when it has something to say; "fleet" when the Pool answered the last
	// call, "local" when it did not, and "left" after Close.
	Mode string

	Err     error         // why the last call had no answer, in mode "local"; nil otherwise
	Members int           // by the last answer; zero when there was none yet
	Stale   time.Duration // since the last answer; zero when there was none yet

	Leased   uint64 // lent by the Pool
	Stranded uint64 // given to the Pool, or back to it, and lost: there was no answer, or it had forgotten

	DeniedEmpty uint64 // retries and hedges, when the Pool had nothing, or was not to be asked again yet
	DeniedLocal uint64 // when it did not answer
}

// String says all of it in one line, for logs.
func (s FleetStats) String() string {
	if s.Mode == "" {
		return "no fleet"
	}
	text := s.Mode
	if s.Members > 0 {
		text += fmt.Sprintf(", %s %v ago", plural(s.Members, "member"), s.Stale.Round(time.Millisecond))
	}
	text += fmt.Sprintf("; %d leased, %d stranded; denied: %d empty, %d local", s.Leased, s.Stranded, s.DeniedEmpty, s.DeniedLocal)
	if s.Err != nil {
		text += "; " + s.Err.Error()
	}
	return text
}

// stats fills in Fleet, and Floor by how many retries, or hedges, in a row what is
// lent pays for.
func (f *fleet) stats(now int64, hedge bool, s *Stats) {
	s.Floor = int(f.lentAt(now) / perToken)
	if hedge && s.Floor > 0 {
		s.Floor-- // each leaves as much to a retry
	}
	s.Fleet.Leased, s.Fleet.Stranded = f.granted.Load()/perToken, f.stranded.Load()/perToken
	s.Fleet.DeniedEmpty, s.Fleet.DeniedLocal = f.deniedEmpty.Load(), f.deniedLocal.Load()
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Fleet.Members = f.members
	if f.members > 0 {
		s.Fleet.Stale = time.Duration(max(now-f.answered, 0))
	}
	switch {
	case f.left != nil:
		s.Fleet.Mode = "left"
	case f.lost.Load():
		s.Fleet.Mode, s.Fleet.Err = "local", f.err
	case f.members > 0:
		s.Fleet.Mode = "fleet"
	default:
		s.Fleet.Mode = "joining"
	}
}

// describe goes on where String has told the cap.
func (f *fleet) describe(s FleetStats) string {
	switch {
	case s.Mode == "left":
		return " (has left its fleet)"
	case s.Members == 0:
		return fmt.Sprintf("%s (%s)", f.floor(), s.Mode)
	}
	return fmt.Sprintf("%s (%s, %s)", f.floor(), s.Mode, plural(s.Members, "member"))
}

// floor names that of the whole fleet.
func (f *fleet) floor() string {
	return fmt.Sprintf(" + %s/s, burst %d of the whole fleet", decimal(uint64(f.rate), perToken), f.burst/perToken)
}

// why goes on where there is no credit.
func (f *fleet) why(now int64, hedge bool) string {
	if hedge {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.left != nil:
		return ", and the fleet is left"
	case f.lost.Load():
		return ", and the fleet's pool does not answer"
	case f.members == 0:
		return ", and the fleet's pool was not asked yet"
	case f.empty:
		return ", nor any in the fleet's pool"
	}
	return fmt.Sprintf(", and the fleet's pool is asked again in %v", time.Duration(max(f.nextAt-now, 0)).Round(time.Millisecond))
}

// beside names what there is beside own credit.
func (c *core) beside() string {
	if c.fleet != nil {
		return "lent"
	}
	return "floor"
}
