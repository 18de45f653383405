package latency

import (
	"math/bits"
	"time"
)

// The buckets divide each power of two of nanoseconds into 64 equal parts, so
// the middle of a bucket is within 1/128 of everything in it. They begin at
// 4.1 µs, below which no call to another process answers, and end at 274 s.
// Version 1 of the binary form counts in these buckets: change them together.
const (
	subBits  = 6
	firstExp = 12
	lastExp  = 38
	buckets  = (lastExp - firstExp) << subBits
)

// bucketOf returns the bucket that d counts in.
func bucketOf(d time.Duration) int {
	switch {
	case d < 1<<firstExp:
		return 0
	case d >= 1<<lastExp:
		return buckets - 1
	}
	exp := bits.Len64(uint64(d)) - 1
	return (exp-firstExp-1)<<subBits + int(d>>(exp-subBits))
}

// middleOf returns the latency that bucket i stands for.
func middleOf(i int) time.Duration {
	exp := firstExp + i>>subBits
	width := time.Duration(1) << (exp - subBits)
	return time.Duration(1)<<exp + time.Duration(i&(1<<subBits-1))*width + width/2
}
