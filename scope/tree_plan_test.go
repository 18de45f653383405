package scope_test

import (
	"time"
)

// A treePlan is all that one random tree will do; its seed decides everything.
// Even seeds are played in a synctest bubble, odd ones run free.
type treePlan struct {
	seed   uint64
	bubble bool
	coarse bool // in a bubble: instants coincide on purpose
	entry  entryKind
	entryD time.Duration
	root   *scopePlan
	tasks  int
	scopes int
	made   int // elements named so far
}

// An entryKind is what the root scope stands in.
type entryKind int

const (
	entryPlain           entryKind = iota // a context that never ends
	entryCancelled                        // a std context, cancelled from outside while the tree runs
	entryCancelledCause                   // the same, with a cause of its own
	entryDeadline                         // a std context with a deadline, inherited
	entryBudget                           // a budget.Enter context, cancelled from outside
	entryEnded                            // a context that has ended before
	entryNoDeadline                       // an inherited limit with nothing to inherit
	entryForeignDeadline                  // a std context whose deadline has passed before
)

type limitKind int

const (
	limitInherited limitKind = iota
	limitLong
	limitShort
	limitExpired   // within zero: refused
	limitTooLittle // requires more than is left: refused
)

type scopePlan struct {
	name    string
	depth   int
	limit   limitKind
	d       time.Duration // of a short limit
	body    *taskPlan
	cleanup cleanupKind
	onError errorPolicy // what the opener does with the error
	rethrow bool        // whether the opener lets a panic through
}

type cleanupKind int

const (
	cleanupNone cleanupKind = iota
	cleanupGood
	cleanupFails
)

type errorPolicy int

const (
	errorReturned errorPolicy = iota
	errorWrapped
	errorDropped
)

// A taskPlan is what a task, or a body, does: its steps, then its end.
type taskPlan struct {
	name     string // empty for a body
	via      via
	limit    time.Duration // of viaLimit
	steps    []step
	end      end
	obedient bool          // returns its context's cause when a step is cut short
	patience time.Duration // how long it waits for its context's end, when it does
	linger   time.Duration // how long it ignores that end, when it does
	errValue bool          // panics with an error that matches context.Canceled
}

// via is how a task is started.
type via int

const (
	viaGo via = iota
	viaFork
	viaLimit      // a limit of its own
	viaInValue    // a context with a value
	viaInCancel   // a std child
	viaInShielded // WithoutCancel
	viaInTimeout  // a std child with a long timeout
	viaCount
)

type step struct {
	kind  stepKind
	at    time.Duration // of a pause: the instant; running free: how many yields
	deaf  bool          // of a pause: whatever happens
	task  *taskPlan
	scope *scopePlan
	as    int // of a cancel: which kind
}

type stepKind int

const (
	stepPause    stepKind = iota
	stepSpawn             // into its own scope
	stepSpawnUp           // into the scope around its own
	stepCancel            // its own scope
	stepNested            // opens a scope
	stepTaskWait          // forks a task and waits for it
	stepWait              // of a body: waits for the scope and goes on
)

// end is how a task or a body ends.
type end int

const (
	endNil end = iota
	endFail
	endPanic
	endGoexit
	endObeyCause    // waits for its context's end and returns the cause
	endObeyErr      // the same, ctx.Err()
	endObeyWrapped  // the same, with something around it
	endLateNil      // waits for the end, then succeeds
	endOverstayNil  // the same, after a while
	endOverstayFail // waits for the end, ignores it for a while, then fails
	endLatePanic    // waits for the end, then panics
	endOwnLimit     // waits longer than its own limit
	// Of bodies alone:
	endWait        // returns Wait's error
	endWaitWrapped // returns it with something around it
	endWaitCaught  // drops it
	endTaskError   // returns a Task.Wait's error
)

// A story is what a scope is mostly about, so that every kind of end is common.
type story int

const (
	storyPlain story = iota
	storyFailure
	storyDeadline
	storyCancel
	storyMixed
)
