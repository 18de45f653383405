package recipes

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// Proxy stands at the edge before a service that honours budgets.
func Proxy(to *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:      &curfewhttp.Transport{},
		ModifyResponse: inOurWords,
		ErrorHandler:   curfewhttp.Error,
	}
	return curfewhttp.Handler(proxy, curfewhttp.Config{
		Max:     3 * time.Second,
		Reserve: 50 * time.Millisecond, // for the way back to the browser
		Edge:    true,                  // whatever a browser says about time is taken off
	})
}

// inOurWords makes an error of a failure that the service behind told of, so that the
// edge answers for it: what the service wrote names its limits.
func inOurWords(resp *http.Response) error {
	if result, ok := curfewhttp.ResultOf(resp.Header); !ok || result.Kind == budget.None {
		return nil // an answer like any other
	}
	return curfewhttp.CheckResponse(resp)
}
