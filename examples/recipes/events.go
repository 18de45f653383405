package recipes

import (
	"fmt"
	"net/http"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

// Events is a route for server-sent events: a second for the first byte, ten minutes
// for the stream, and no more than half a minute of silence.
func (shop *Shop) Events() http.Handler {
	return curfewhttp.Handler(http.HandlerFunc(shop.events), curfewhttp.Config{
		Max:    time.Second,
		Stream: &curfewhttp.Stream{Lifetime: 10 * time.Minute, Idle: 30 * time.Second},
	})
}

func (shop *Shop) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	if rc.Flush() != nil { // from here on the stream's own limits hold
		return
	}
	prices := shop.Prices(r.Context())
	alive := time.NewTicker(10 * time.Second)
	defer alive.Stop()
	for {
		select {
		case price, ok := <-prices:
			if !ok {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", price)
		case <-alive.C:
			fmt.Fprint(w, ": alive\n\n")
		case <-r.Context().Done():
			return
		}
		if rc.Flush() != nil {
			return
		}
	}
}
