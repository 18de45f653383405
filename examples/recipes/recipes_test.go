package recipes

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/examples/internal/page"
	"github.com/curfew-go/curfew/scope"
)

// patience bounds waits for what must happen.
const patience = 30 * time.Second

func TestThePageShowsTheFunctionsHere(t *testing.T) {
	page.ShowsFunctions(t, "../../docs/recipes.md")
}

// hang waits for the end of ctx.
func hang(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

func serve(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// ask sends a request that says how many milliseconds are left; none when left is "".
func ask(t *testing.T, method, url, left string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	require.NoError(t, err)
	if left != "" {
		r.Header.Set(curfewhttp.Header, left)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

func order(ctx context.Context, id string) (string, error) {
	switch id {
	case "slow":
		return hang(ctx)
	case "broken":
		return "", errors.New("broken")
	}
	return "order " + id, nil
}

func TestRoutesHaveTheirOwnLimits(t *testing.T) {
	var counts meter.Memory
	var logged []string
	logger := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			logged = append(logged, http.StatusText(rec.Code))
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes())
		})
	}
	shop := &Shop{Order: order, Recorder: &counts}
	for name, h := range map[string]http.Handler{"mux": shop.Mux(), "chi": shop.Chi(logger)} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, h)
			resp, body := ask(t, "GET", url+"/order/7", "")
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, "order 7\n", body)
			resp, _ = ask(t, "GET", url+"/order/broken", "")
			assert.Equal(t, 500, resp.StatusCode)
			began := time.Now()
			resp, body = ask(t, "GET", url+"/order/slow", "100")
			assert.Equal(t, 504, resp.StatusCode)
			assert.Contains(t, body, `"kind":"deadline_exceeded"`)
			assert.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
			resp, _ = ask(t, "GET", url+"/order/7", "0")
			assert.Equal(t, 503, resp.StatusCode)
		})
	}
	assert.Equal(t, []string{"OK", "Internal Server Error", "Gateway Timeout", "Service Unavailable"}, logged)
	resp, _ := ask(t, "GET", serve(t, shop.Mux())+"/healthz", "0")
	assert.Equal(t, 200, resp.StatusCode, "it has no limit and asks for none")
	assert.EqualValues(t, 1, counts.Count(meter.Outcome, meter.Label{Key: "outcome", Value: "deadline_exceeded"}, meter.Label{Key: "route", Value: "/order"}))
}

func TestAProxyBelievesNoBrowserAndTellsTheServiceWhatIsLeft(t *testing.T) {
	left := make(chan time.Duration, 1)
	service := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := budget.Remaining(r.Context())
		left <- d
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
	}), curfewhttp.Config{Max: time.Minute}))
	to, err := url.Parse(service)
	require.NoError(t, err)
	proxy := serve(t, Proxy(to))
	resp, _ := ask(t, "GET", proxy+"/", "1") // a browser that would have it refused
	assert.Equal(t, 200, resp.StatusCode)
	d := <-left
	assert.Less(t, d, 3*time.Second)
	assert.Greater(t, d, time.Second)
	resp, body := ask(t, "GET", proxy+"/slow", "")
	<-left
	assert.Equal(t, 504, resp.StatusCode)
	assert.NotContains(t, body, "127.0.0.1")
}

// The service tells its caller, the proxy, whose limit it was. The browser is not told.
func TestAProxyAtTheEdgeTellsNothingFromInside(t *testing.T) {
	service := serve(t, curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-r.Context().Done()
		case "/broken":
			curfewhttp.Error(w, r, errors.New("broken"))
		case "/missing":
			http.Error(w, "no such order", http.StatusNotFound)
		}
	}), curfewhttp.Config{Max: 20 * time.Millisecond, ServerTiming: true}))
	to, err := url.Parse(service)
	require.NoError(t, err)
	proxy := serve(t, Proxy(to))
	for path, want := range map[string]int{"/slow": 504, "/broken": 500, "/missing": 404} {
		direct, inside := ask(t, "GET", service+path, "1000")
		assert.NotEmpty(t, direct.Header.Get(curfewhttp.ResultHeader))
		assert.Equal(t, want != 404, strings.Contains(inside, `"kind"`), inside)
		resp, body := ask(t, "GET", proxy+path, "")
		assert.Equal(t, want, resp.StatusCode, path)
		for _, word := range []string{"kind", "_ms", "limited_by", "phase", "not_started", "127.0.0.1"} {
			assert.NotContains(t, body, word, path)
		}
		assert.Empty(t, resp.Header.Get(curfewhttp.ResultHeader), path)
		assert.Empty(t, resp.Header.Get("Server-Timing"), path)
		if want == 404 {
			assert.Equal(t, "no such order\n", body, "an answer is the service's")
		}
	}
}

func TestAPageDoesWithoutWhatItCanDoWithout(t *testing.T) {
	ads := func(context.Context) (string, error) { return "buy", nil }
	for _, tt := range []struct {
		id, left           string
		ads                func(context.Context) (string, error)
		status             int
		body, notToBeThere string
	}{
		{"7", "", ads, 200, "order 7\nbuy\n", ""},
		{"7", "", hang, 200, "order 7\nno ads\n", "ads"},
		{"slow", "100", ads, 504, `"kind":"deadline_exceeded"`, ""},
		{"broken", "", hang, 500, `"kind":"failed"`, ""},
	} {
		url := serve(t, (&Shop{Order: order, Ads: tt.ads}).Mux())
		resp, body := ask(t, "GET", url+"/page/"+tt.id, tt.left)
		assert.Equal(t, tt.status, resp.StatusCode)
		assert.Contains(t, body, tt.body)
		assert.Equal(t, tt.notToBeThere, resp.Header.Get(curfewhttp.IncompleteHeader))
	}
}

func TestAStreamGoesOnAfterTheDeadlineOfItsFirstByte(t *testing.T) {
	over := make(chan struct{})
	shop := &Shop{Prices: func(ctx context.Context) <-chan string {
		prices := make(chan string)
		go func() {
			defer close(over)
			for {
				select {
				case prices <- "5":
				case <-ctx.Done():
					return
				}
				select {
				case <-time.After(300 * time.Millisecond):
				case <-ctx.Done():
					return
				}
			}
		}()
		return prices
	}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", serve(t, shop.Events()), nil)
	require.NoError(t, err)
	r.Header.Set(curfewhttp.Header, "500")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	began, events := time.Now(), 0
	for events < 4 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: 5") {
			events++
		}
	}
	assert.Equal(t, 4, events)
	assert.Greater(t, time.Since(began), 600*time.Millisecond, "longer than the request's own deadline")
	cancel()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("the stream outlives its client")
	}
}

func TestAReportOutlivesItsRequestAndIsAskedFor(t *testing.T) {
	step := make(chan error)
	root := scope.NewRoot("shop")
	shop := &Shop{Root: root, Report: func(ctx context.Context, progress func(int)) (string, error) {
		left, _ := budget.Remaining(ctx)
		assert.Greater(t, left, 10*time.Second, "not what its request had")
		progress(50)
		select {
		case err := <-step:
			return "the report", err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}}
	url := serve(t, shop.Mux())
	for fails, want := range map[error]int{nil: 200, errors.New("broken"): 500} {
		resp, _ := ask(t, "POST", url+"/report", "")
		require.Equal(t, 202, resp.StatusCode)
		job := url + resp.Header.Get("Location")
		resp, _ = ask(t, "GET", job, "")
		assert.Equal(t, 202, resp.StatusCode)
		assert.Equal(t, "1", resp.Header.Get("Retry-After"))
		step <- fails
		require.Eventually(t, func() bool {
			resp, _ = ask(t, "GET", job, "")
			return resp.StatusCode != 202
		}, patience, time.Millisecond)
		assert.Equal(t, want, resp.StatusCode)
	}
	resp, _ := ask(t, "GET", url+"/report/none", "")
	assert.Equal(t, 404, resp.StatusCode)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, root.Drain(ctx))
	resp, _ = ask(t, "POST", url+"/report", "")
	assert.Equal(t, 503, resp.StatusCode, "nothing new is begun")
}
