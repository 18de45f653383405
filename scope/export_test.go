package scope

// ProfilesTaken returns how many profiles of all goroutines were taken so far.
func ProfilesTaken() uint32 { return shared.count.Load() }

// Listed returns how many tasks stand in the list of s, with those that have ended
// alone and were not swept yet.
func Listed(s *Scope) int {
	s.c.node.Mu.Lock()
	defer s.c.node.Mu.Unlock()
	n := 0
	for t := s.c.tasks; t != nil; t = t.next {
		n++
	}
	return n
}
