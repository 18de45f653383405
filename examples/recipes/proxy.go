package recipes

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
)

// Proxy stands at the edge before a service that honours budgets.
func Proxy(to *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:    &curfewhttp.Transport{},
		ErrorHandler: curfewhttp.Error,
	}
	return curfewhttp.Handler(proxy, curfewhttp.Config{
		Max:     3 * time.Second,
		Reserve: 50 * time.Millisecond, // for the way back to the browser
		Edge:    true,                  // whatever a browser says about time is taken off
	})
}
