// Package checkpoint lets work that never blocks notice that it was cancelled:
// loops, iterators and readers that compute rather than wait. A checkpoint is
// cheap enough for the innermost loop, and it notices a deadline even when the
// timer behind the ctx is late because the machine is busy. Jobs that outlive
// a process can watch a durable source of cancels.
//
// Nothing is exported yet.
package checkpoint
