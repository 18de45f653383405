//go:build !unix

package bench

import "time"

// cpuTime is not known here, and zero: the tables then show no processor time.
func cpuTime() time.Duration { return 0 }
