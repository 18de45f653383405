package retrybudget

import (
	"fmt"
	"time"
)

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
		s.Fleet.Mode = "local"
	case f.members > 0:
		s.Fleet.Mode = "fleet"
	default:
		s.Fleet.Mode = "joining"
	}
}

// describe goes on where String has told the cap.
func (f *fleet) describe(s Stats) string {
	text := fmt.Sprintf(" + %s/s, burst %d of the whole fleet (%s", decimal(uint64(f.rate), perToken), f.burst/perToken, s.Fleet.Mode)
	if s.Fleet.Members > 0 {
		text += fmt.Sprintf(", %d members", s.Fleet.Members)
	}
	return text + ")"
}

// why goes on where there is no credit.
func (f *fleet) why(hedge bool) string {
	switch {
	case hedge:
		return ""
	case f.lost.Load():
		return ", and the fleet's pool does not answer"
	}
	return ", nor any in the fleet's pool"
}

// beside names what there is beside own credit.
func (c *core) beside() string {
	if c.fleet != nil {
		return "lent"
	}
	return "floor"
}
