package scopetest

import (
	"context"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/internal/lab"
)

const (
	// defaultGrace covers the second that a scope's cleanups have unless its
	// Limit says otherwise, and as much again for a busy machine. Only a test
	// that fails waits for all of it.
	defaultGrace = 2 * time.Second
	// generous is the deadline of a test that has none of its own.
	generous = time.Hour
	// lastWords is the most that is kept of a test binary's time, so that a test
	// which hangs is told by its scopes who was late, before go test dumps all
	// goroutines.
	lastWords = 10 * time.Second
)

// An Option changes what Context checks. The zero Option changes nothing.
type Option struct{ apply func(*tester) }

// Grace sets how long what still runs at the end of the test has to end, once its
// context has. The default is two seconds. A negative d panics; 0 waits for
// nobody, not even for those who obey at once.
func Grace(d time.Duration) Option {
	if d < 0 {
		panic("scopetest: Grace(" + d.String() + "): must not be negative")
	}
	return Option{func(c *tester) { c.grace = d }}
}

// AllowOrphan lets tasks whose path matches pattern, and what runs in scopes that
// they opened, outlive the test, provided that their scope has abandoned them: see
// [scope.Scope.SetStragglers]. A task that its scope still waits for is a leak
// whatever its name. The pattern is that of [path.Match]; a malformed or empty one
// panics.
func AllowOrphan(pattern string) Option {
	mustBePattern("AllowOrphan", pattern)
	return Option{func(c *tester) { c.allowed = append(c.allowed, pattern) }}
}

func mustBePattern(verb, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		panic("scopetest: " + verb + ": malformed path pattern \"" + pattern + "\"")
	}
}

// A tester is what one call of Context sets up.
type tester struct {
	t       testing.TB
	lab     lab.Test
	grace   time.Duration
	allowed []string
	tree    *scope.Root // holds the scopes opened under the context

	mu     sync.Mutex
	roots  []*scope.Root
	faults []*Fault
}

// Context returns a context for the test t, with the values of t.Context, that
// ends when that does, which is before the test's cleanups. Its deadline is an
// hour away; or earlier, when go test's own timeout is (see its -timeout), by a
// tenth of what is left of that, at most ten seconds. In a synctest bubble it is
// an hour on the bubble's clock.
//
// When t ends, in a cleanup registered by this call, scopes opened below the
// context and tasks in them have a grace (see [Grace]) to end. Each that still
// runs then fails t, by t.Errorf. Orphans, which their scopes went on without, are
// no exception unless [AllowOrphan] makes one. So does each fault of [Inject] that
// was never met.
//
// Not checked: goroutines that no scope started; what was started below a
// [scope.Root] that [Root] did not make; and cleanups that their scope left behind,
// which it reports by itself. A nil t panics, and Context after the end of t's
// context fails it at once.
func Context(t testing.TB, options ...Option) context.Context {
	if t == nil {
		panic("scopetest: Context: nil testing.TB")
	}
	t.Helper()
	name := t.Name()
	if name == "" {
		name = "scopetest" // the tree's name, which nobody is shown
	}
	c := &tester{t: t, grace: defaultGrace, tree: scope.NewRoot(name)}
	c.lab.Owner, c.lab.At = c, c.at
	for _, o := range options {
		if o.apply != nil {
			o.apply(c)
		}
	}
	limit := budget.Within(timeFor(t)).Named("scopetest")
	ctx, cancel, err := budget.Enter(lab.With(t.Context(), &c.lab, c.tree), limit)
	if err != nil {
		t.Fatalf("scopetest: Context: %v", err)
	}
	t.Cleanup(func() {
		t.Helper()
		cancel()
		c.finish()
	})
	return ctx
}

// timeFor returns how long the context of t lasts.
func timeFor(t testing.TB) (d time.Duration) {
	timed, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return generous
	}
	d = generous
	defer func() {
		// In a bubble, and only there, Deadline panics: see testing.T.
		_ = recover()
	}()
	if deadline, ok := timed.Deadline(); ok {
		left := time.Until(deadline)
		d = min(generous, left-min(left/10, lastWords))
	}
	return d
}

// Root returns a new [scope.Root] of that name for code that is given one, under
// the checks of the test that ctx belongs to. When the test ends and nobody has
// drained it, its work is cancelled at once and has the same grace as all other
// work. A ctx that does not come from [Context] and an empty name panic.
func Root(ctx context.Context, name string) *scope.Root {
	c := testerOf("Root", ctx)
	if name == "" {
		panic("scopetest: Root: empty name")
	}
	r := scope.NewRoot(name)
	lab.Watch(r, &c.lab)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roots = append(c.roots, r)
	return r
}

// testerOf returns the tester to which ctx belongs.
func testerOf(verb string, ctx context.Context) *tester {
	if ctx == nil {
		panic("scopetest: " + verb + ": nil context")
	}
	if t := lab.Of(ctx); t != nil {
		if c, ok := t.Owner.(*tester); ok {
			return c
		}
	}
	panic("scopetest: " + verb + ": the context does not come from scopetest.Context")
}
