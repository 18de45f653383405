// Package stress reads CURFEW_STRESS, by which tests repeat more than they do by default and
// assert figures of time, for which machines are elsewhere too busy.
package stress

import (
	"os"
	"strconv"
)

// Level returns the number that CURFEW_STRESS is, and 0 without one.
func Level() int {
	n, _ := strconv.Atoi(os.Getenv("CURFEW_STRESS"))
	return max(n, 0)
}

// Rounds returns rounds times Level, and rounds where that is 0.
func Rounds(rounds int) int { return rounds * max(Level(), 1) }

// Shown returns how many rounds to run: some, or as many as are to be shown when Level is 10.
func Shown(some, all int) int {
	if n := Level(); n > 0 {
		return max(all*n/10, some)
	}
	return some
}
