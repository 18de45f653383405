package curfewhttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

// slowWriter is net/http's writer on a machine that is busy: its header map is there
// only once the grace is over.
type slowWriter struct {
	http.ResponseWriter
	bounded chan time.Duration // how long the write deadline leaves
}

func (w *slowWriter) Header() http.Header {
	if h := w.ResponseWriter.Header(); h.Get("Slow") == "" {
		return h
	}
	w.bounded <- <-w.bounded
	w.ResponseWriter.Header().Del("Slow")
	return w.ResponseWriter.Header()
}

func (w *slowWriter) SetWriteDeadline(t time.Time) error {
	w.bounded <- time.Until(t)
	return nil
}

// What holds the writer when the grace ends may be a handler that is held up, not one
// that waits for its client: as long as nothing was sent there is a 504 to come.
func TestAHandlerThatIsHeldUpBeforeItWritesIsAnsweredFor(t *testing.T) {
	w := &slowWriter{httptest.NewRecorder(), make(chan time.Duration, 2)}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	curfewhttp.Handler(http.HandlerFunc(func(ours http.ResponseWriter, r *http.Request) {
		w.ResponseWriter.Header().Set("Slow", "yes")
		<-r.Context().Done()
		ours.Header().Set("Too", "late")
	}), curfewhttp.Config{Max: 20 * ms}).ServeHTTP(w, r)
	assert.Positive(t, within(t, w.bounded, "a bound for the answer"), "a reset at once would lose the answer")
	assert.Equal(t, http.StatusGatewayTimeout, w.ResponseWriter.(*httptest.ResponseRecorder).Code)
}
