// Package optout holds the mark that adapters/sql and adapters/pgx share: of a context
// whose statements get no limit in the server. Either of them may be under the other.
package optout

import "context"

// Key is the key of the mark.
type Key struct{}

// With returns ctx with the mark.
func With(ctx context.Context) context.Context { return context.WithValue(ctx, Key{}, true) }

// Of reports whether ctx has the mark.
func Of(ctx context.Context) bool { return ctx.Value(Key{}) != nil }
