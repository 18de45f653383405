package ctxnode

import (
	"context"
	"time"
)

// Rebase returns a context with the values of ctx that never ends and has no
// deadline, and that stands under v: what is opened in it belongs to v, not to
// whoever handed ctx out.
func Rebase(ctx context.Context, v *View) context.Context { return &rebased{ctx, v} }

type rebased struct {
	values context.Context
	view   *View
}

func (*rebased) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*rebased) Done() <-chan struct{}       { return nil }
func (*rebased) Err() error                  { return nil }

func (r *rebased) Value(key any) any {
	if _, ok := key.(viewKey); ok {
		return r.view
	}
	if key == stdKey {
		return nil // there is nothing that could cancel it
	}
	return r.values.Value(key)
}

func (r *rebased) String() string { return r.view.String() + ".Rebased" }
