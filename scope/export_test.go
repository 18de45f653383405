package scope

// ProfilesTaken returns how many profiles of all goroutines were taken so far.
func ProfilesTaken() uint32 { return shared.count.Load() }
