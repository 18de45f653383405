package curfewhttp

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/curfew-go/curfew/budget/latency"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/budget/wire"
)

// Header is the name of the header that says how many milliseconds are left.
const Header = "X-Request-Deadline-Ms"

// envoyHeader is Envoy's, which says how many milliseconds Envoy waits.
// Source: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter
const envoyHeader = "X-Envoy-Expected-Rq-Timeout-Ms"

// defaultMax is the route maximum where none is configured.
const defaultMax = 2 * time.Second

// A Mode says how much a Handler does about a deadline, so that one can be brought
// in step by step. What is refused, or would be, is counted and logged under the name
// of the mode.
type Mode uint8

const (
	// Enforce does all that Handler says.
	Enforce Mode = iota
	// Warn runs h under the deadline, so that what h calls is told of it, and h may
	// end early. It refuses nothing and answers nothing in h's place: a request that
	// would have been refused has the route's maximum. How requests end is counted and
	// logged as under Enforce, but for handlers that do not look at their context.
	Warn
	// Observe runs h as if there were no Handler. It only looks: it counts what budgets
	// arrive, what would have been refused, with a line in the log for each of those,
	// how long requests take, and as late those that end after the deadline that they
	// would have had. It has no other outcomes and no line for other requests.
	Observe
)

// String returns the mode as telemetry writes it.
func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Warn:
		return "warn"
	case Observe:
		return "observe"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Config says how long a route may take, whom it believes, and who is told. The
// zero Config is ready to use. What is out of bounds panics in Handler. Functions
// may be called by many goroutines at once.
type Config struct {
	// Max is the most time a request may take; 2 s when zero.
	Max time.Duration
	// Default is what a request gets whose caller does not say; Max when zero, and
	// never above Max. Requests that need it are counted.
	Default time.Duration
	// Reserve is kept back from h, for the way of the answer to the client.
	Reserve time.Duration
	// Useful is the least time with which beginning makes sense: a request that
	// has less is refused, never given more. Zero refuses only what has expired.
	Useful time.Duration
	// Observed, when not nil, records how long h takes, and while Useful is zero its
	// median is the least time with which beginning makes sense. It belongs to one
	// route.
	Observed *latency.Observed
	// RefuseAtMost is the share of the requests that may be refused because less
	// than the useful time is left, so that a median that has gone wrong cannot
	// refuse them all; 1 when zero. Requests that have expired do not count and are
	// always refused.
	RefuseAtMost float64

	// RetryAfter, when above zero, is what a request that is refused because less than
	// the useful time is left is told to wait, in whole seconds, rounded up. Without it
	// there is no Retry-After: the caller that has no time left is not the one to try
	// again, so say it only where others with more time are behind it.
	RetryAfter time.Duration

	// Forms are the headers that say what the caller gives; of several the strictest
	// counts. Nil is grpc-timeout, X-Request-Deadline-Ms and Envoy's header.
	Forms []wire.Form
	// RequestStart is the name of the header, such as X-Request-Start, in which a
	// proxy says when it took the request in, so that the time in its queue is
	// charged to the request; empty is none. Name it only behind a proxy that sets
	// that header itself, whatever its client sent.
	RequestStart string
	// Edge is for a route whose callers are not trusted: what they say about time is
	// taken off the request and not believed, and the answers that Handler and Error
	// write name nothing from inside. The body of a reply that h itself writes is h's,
	// also of one that a proxy passes on: see "A reverse proxy" in docs/recipes.md.
	Edge bool
	// Mode is Enforce when zero.
	Mode Mode
	// Grace is how long h may take to return after its deadline before another
	// goroutine answers in its place; 20 ms when zero.
	Grace time.Duration
	// Stream, when not nil, makes Max and what the caller says a limit for the first
	// byte of the response alone.
	Stream *Stream
	// Queue, when not nil, makes requests wait for their turn, and refuses what it
	// refuses when the Mode is Warn as well; Observe leaves it out.
	Queue *Queue

	// Problem may change the answer to a request that failed, before it is written.
	Problem func(r *http.Request, p *Problem)
	// Refused is told of each request that is refused, before the response is
	// written. The error is a *budget.Cause or, for a malformed header, which is
	// answered with 400, a *wire.FormatError.
	Refused func(r *http.Request, why error)

	// Route names the route in metrics, logs and ledgers: what was registered, not
	// what was asked for; empty is "http".
	Route string
	// Caller names the caller for the count of received budgets; nil leaves it out.
	// Its values must be few.
	Caller func(r *http.Request) string
	// Recorder is told what is counted and measured, under the names in package
	// meter; nil is nobody.
	Recorder meter.Recorder
	// Log gets one line for each request that was refused, failed or was late, at
	// the level of a warning, and for all others at that of debugging; nil is none.
	Log *slog.Logger
	// ServerTiming adds what is known about the time to the response, as a
	// Server-Timing header. An edge does not.
	ServerTiming bool
	// Hurried is told when the share of requests that arrive with less than 50 ms
	// left crosses HurriedShare, 10% when zero, upwards or downwards, over the last
	// thousand requests; nil is nobody.
	Hurried      func(share float64)
	HurriedShare float64
}

// settle returns c with what its zeros stand for, and panics when it is out of bounds.
func (c Config) settle() Config {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Max", c.Max}, {"Default", c.Default}, {"Reserve", c.Reserve}, {"Useful", c.Useful}, {"Grace", c.Grace}, {"RetryAfter", c.RetryAfter},
	} {
		if d.value < 0 {
			panic(fmt.Sprintf("curfewhttp: Handler: negative %s %v", d.name, d.value))
		}
	}
	if c.Max == 0 {
		c.Max = defaultMax
	}
	if c.Default == 0 {
		c.Default = c.Max
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Route == "" {
		c.Route = "http"
	}
	if c.RefuseAtMost == 0 {
		c.RefuseAtMost = 1
	}
	if c.HurriedShare == 0 {
		c.HurriedShare = 0.1
	}
	switch {
	case c.Default > c.Max:
		panic(fmt.Sprintf("curfewhttp: Handler: Default %v is above Max %v", c.Default, c.Max))
	case c.Useful > c.Max-c.Reserve:
		panic(fmt.Sprintf("curfewhttp: Handler: Useful %v is above Max %v less Reserve %v: every request would be refused", c.Useful, c.Max, c.Reserve))
	case !(c.RefuseAtMost > 0 && c.RefuseAtMost <= 1):
		panic(fmt.Sprintf("curfewhttp: Handler: RefuseAtMost %v is not above 0 and at most 1", c.RefuseAtMost))
	case !(c.HurriedShare > 0 && c.HurriedShare <= 1):
		panic(fmt.Sprintf("curfewhttp: Handler: HurriedShare %v is not above 0 and at most 1", c.HurriedShare))
	case c.Mode > Observe:
		panic(fmt.Sprintf("curfewhttp: Handler: unknown Mode %d", c.Mode))
	}
	if c.Stream != nil {
		c.Stream.mustBeBounded()
	}
	if c.Forms == nil {
		c.Forms = defaultForms()
	}
	return c
}

func defaultForms() []wire.Form {
	return []wire.Form{wire.GRPC(), wire.Millis(Header), wire.Millis(envoyHeader)}
}
