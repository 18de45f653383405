package curfewhttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
	"github.com/curfew-go/curfew/internal/ctxnode"
	"github.com/curfew-go/curfew/scope"
)

// Header is the name of the header that says how many milliseconds are left.
const Header = "X-Request-Deadline-Ms"

// defaultMax is the route maximum where none is configured.
const defaultMax = 2 * time.Second

// Config says how long a route may take.
type Config struct {
	// Max is the most time a request may take, and what it gets when the caller
	// does not say; 2 s when zero. A negative Max panics in Handler.
	Max time.Duration
	// Useful is the least time with which beginning makes sense: a request
	// that has less is refused, never given more. Zero refuses only what has
	// expired. A negative Useful, or one above Max, panics in Handler.
	Useful time.Duration
	// Refused, when not nil, is told of each request that is refused, before
	// the response is written. The error is a *budget.Cause or, for a malformed
	// header, which is answered with 400, a *wire.FormatError. It may be called
	// from many goroutines.
	Refused func(r *http.Request, why error)
}

// Handler returns a handler that runs h under a deadline: what the request's
// header says is left, at most c.Max, from the instant at which net/http has
// parsed the request's head. h sees it in r.Context(), which also ends when the
// client leaves, as ClientCancelled.
//
// A request that cannot be done in time is refused before h runs: with 503 when
// its time has run out or is less than c.Useful, and with 400 when the header
// is malformed. Several headers that are all valid count as the strictest.
// 503 says that nothing was done. A request whose client has left already is
// refused too, for the log alone.
//
// The deadline ends h's context; it does not stop an h that ignores it.
func Handler(h http.Handler, c Config) http.Handler {
	if h == nil {
		panic("curfewhttp: Handler: nil handler")
	}
	if c.Max < 0 {
		panic(fmt.Sprintf("curfewhttp: Handler: negative Max %v", c.Max))
	}
	if c.Useful < 0 {
		panic(fmt.Sprintf("curfewhttp: Handler: negative Useful %v", c.Useful))
	}
	if c.Max == 0 {
		c.Max = defaultMax
	}
	if c.Useful > c.Max {
		panic(fmt.Sprintf("curfewhttp: Handler: Useful %v is above Max %v: every request would be refused", c.Useful, c.Max))
	}
	return &handler{next: h, config: c}
}

type handler struct {
	next   http.Handler
	config Config
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit, err := h.limit(r)
	if err != nil {
		h.refuse(w, r, err, http.StatusBadRequest)
		return
	}
	ctx, cancel, err := budget.Enter(ctxnode.Client{Context: r.Context()}, limit.Require(h.config.Useful))
	defer cancel()
	if err != nil {
		h.refuse(w, r, err, budget.KindOf(err).HTTPStatus())
		return
	}
	defer passAbort()
	inner := r.WithContext(ctx)
	// net/http removes the temporary files of an upload by the request it made.
	defer func() { r.MultipartForm = inner.MultipartForm }()
	h.next.ServeHTTP(w, inner)
}

// limit returns the strictest of what the peer and the route say.
func (h *handler) limit(r *http.Request) (budget.Limit, error) {
	values := r.Header.Values(Header)
	if len(values) == 0 {
		return budget.Within(h.config.Max).Named("route default"), nil
	}
	limit := budget.Within(h.config.Max).Named("route maximum")
	strictest := h.config.Max
	for _, value := range values {
		left, err := wire.ParseMillis(value)
		if err != nil {
			return budget.Limit{}, err
		}
		if left < strictest {
			strictest = left
			limit = budget.Within(left).Named("peer header")
		}
	}
	return limit, nil
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, why error, status int) {
	if h.config.Refused != nil {
		h.config.Refused(r, why)
	}
	text := "malformed " + Header
	if status != http.StatusBadRequest {
		text = "not started: " + budget.KindOf(why).String()
	}
	http.Error(w, text, status)
}

// passAbort lets http.ErrAbortHandler, which net/http knows by identity, through
// unchanged when a task raised it. Any other panic goes on as it is.
func passAbort() {
	v := recover()
	if v == nil {
		return
	}
	if pe, ok := v.(*scope.PanicError); ok && errors.Is(pe, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	panic(v)
}
