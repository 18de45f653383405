package recipes

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// A report is work that takes up to half a minute, for which no request waits.
type report struct {
	percent int
	over    bool
	text    string
	err     error
}

// reports are those that were asked for. A service that must not lose them keeps them
// in a database, and forgets them after a while.
type reports struct {
	mu  sync.Mutex
	all map[string]*report
}

// startReport answers 202 at once. The work belongs to the service's Root, with a
// limit of its own: it outlives the request and no longer than that, and a Drain
// waits for it.
func (shop *Shop) startReport(w http.ResponseWriter, r *http.Request) {
	job := rand.Text()
	err := shop.Root.Go(r.Context(), "report", budget.Within(30*time.Second), func(ctx context.Context) error {
		text, err := shop.Report(ctx, func(percent int) {
			shop.reports.set(job, func(rep *report) { rep.percent = percent })
		})
		shop.reports.set(job, func(rep *report) { rep.over, rep.text, rep.err = true, text, err })
		return err
	})
	if err != nil { // the service is being drained
		curfewhttp.Error(w, r, err)
		return
	}
	shop.reports.set(job, func(*report) {})
	w.Header().Set("Location", "/report/"+job)
	w.WriteHeader(http.StatusAccepted)
}

// pollReport is short, whatever the report takes.
func (shop *Shop) pollReport(w http.ResponseWriter, r *http.Request) {
	rep, ok := shop.reports.get(r.PathValue("job"))
	switch {
	case !ok:
		http.NotFound(w, r)
	case !rep.over:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
	case rep.err != nil:
		curfewhttp.Error(w, r, rep.err)
	default:
		_, _ = w.Write([]byte(rep.text))
	}
}

func (all *reports) set(job string, change func(*report)) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = map[string]*report{}
	}
	if all.all[job] == nil {
		all.all[job] = &report{}
	}
	change(all.all[job])
}

func (all *reports) get(job string) (report, bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	rep, ok := all.all[job]
	if !ok {
		return report{}, false
	}
	return *rep, true
}
