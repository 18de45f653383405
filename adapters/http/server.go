package curfewhttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// CheckServer says whether s lets requests take as long as longest, the longest of
// its routes' maxima and of their streams' lifetimes, and then be answered. A
// WriteTimeout below longest and the 20 ms of the default grace cuts a response off without a status,
// and without a word to the handler; a Handler moves it for each of its requests, but
// not for what is not behind one, and warns of it in its log. The error is nil when all is well.
func CheckServer(s *http.Server, longest time.Duration) error {
	if s == nil {
		panic("curfewhttp: CheckServer: nil server")
	}
	if s.WriteTimeout > 0 && s.WriteTimeout < longest+defaultGrace {
		return fmt.Errorf("curfewhttp: WriteTimeout %v is shorter than a request may take, %v and %v for the answer: clients see the connection closed and no status",
			s.WriteTimeout, longest, defaultGrace)
	}
	return nil
}

// extendWriteTimeout moves the end that http.Server.WriteTimeout set for this request
// behind its deadline and the time that its answer may take, if it would come before
// that. It says so once, if it would come before the answer is begun, which is when
// CheckServer says so too.
func (h *handler) extendWriteTimeout(g *guard) {
	s, _ := g.r.Context().Value(http.ServerContextKey).(*http.Server)
	if s == nil || s.WriteTimeout <= 0 {
		return
	}
	deadline, _ := g.node.Deadline()
	needed := time.Until(deadline) + h.grace + answerBound
	if s.WriteTimeout >= needed {
		return
	}
	_ = http.NewResponseController(g.w).SetWriteDeadline(time.Now().Add(needed))
	if s.WriteTimeout >= deadline.Sub(g.began)+h.grace {
		return
	}
	h.checked.Do(func() {
		log := h.config.Log
		if log == nil {
			log = slog.Default()
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "curfewhttp: the server's WriteTimeout is shorter than the route's budget; it is moved for each request",
			slog.String("route", h.config.Route), slog.Duration("write_timeout", s.WriteTimeout), slog.Duration("max", h.config.Max))
	})
}
