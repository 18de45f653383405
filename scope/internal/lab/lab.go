// Package lab is the door through which package scopetest looks into scopes and
// disturbs them. It is a package of its own so that no user can.
package lab

import (
	"context"
	"time"
)

// A Point is an instant in the life of a task or a cleanup.
type Point uint8

const (
	Spawn   Point = iota // on the goroutine that starts the task, before anything else
	Start                // on the task's goroutine, before its function
	Join                 // on the task's goroutine, after its function has returned
	Cleanup              // on a cleanup's goroutine, before its function
)

// A Test is whoever tests scopes.
type Test struct {
	// At is called at each Point, with the path of the scope. A task that is
	// started again passes Start and Join each time; the items of a Map have no
	// Spawn. At may block, panic or end the goroutine. An error becomes that of
	// the task or the cleanup: at Spawn and Start in place of its function, at
	// Join in place of what the function returned.
	At func(ctx context.Context, p Point, scope, task string) error
	// Owner is whoever made the Test.
	Owner any
}

// A Left is a task, or a scope in which only the body or a cleanup runs.
type Left struct {
	Path     string
	State    string
	Age      time.Duration
	Function string    // the function that runs, and where it is written
	Spawned  []uintptr // the calls that led to its start; nil for a scope
}

// What package scope puts in here.
var (
	// With returns a context whose scopes t looks at, and which stand in the
	// tree of root, a *scope.Root, as if root had opened them. Below it, the
	// places where tasks are started are recorded.
	With func(ctx context.Context, t *Test, root any) context.Context
	// Watch makes t look at root's own work and all below. It is for the moment
	// at which root is made.
	Watch func(root any, t *Test)
	// Of returns the Test of ctx, nil for none.
	Of func(ctx context.Context) *Test
	// Living lists what runs below a root.
	Living func(root any) []Left
)
