package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

var _ = register(Suite{
	Name: "overload",
	About: "an HTTP server on a loopback port that handles 8 requests at once, 10 ms each, is offered a multiple of that in an open loop by clients that wait " +
		"200 ms. goodput-%: answers that came in time once the queue has filled, as a share of what 8 clients get who ask again and again. " +
		"std: net/http, a queue in front of the 8, a timeout in the client; " +
		"curfew: a deadline that travels, and a queue that knows it.",
	Cases: overloadCases,
})

// overloadName is the name of a case, by the load that is offered.
const overloadName = "%g × capacity"

const (
	width   = 8
	takes   = 10 * time.Millisecond
	patient = 200 * time.Millisecond
)

// An overloaded service is a server with the client it is meant for.
type overloaded struct {
	handler http.Handler
	get     func(url string) (*http.Response, error)
}

func overloadWork(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(takes)
	_, _ = io.WriteString(w, "done")
}

func overloadStd() overloaded {
	turns := make(chan struct{}, width)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: patient}
	return overloaded{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turns <- struct{}{}
		defer func() { <-turns }()
		overloadWork(w, r)
	}), client.Get}
}

func overloadCurfew() overloaded {
	client := &http.Client{Transport: &curfewhttp.Transport{Base: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	config := curfewhttp.Config{Max: patient, Useful: 2 * takes, Queue: curfewhttp.NewQueue(width, 100_000)}
	return overloaded{curfewhttp.Handler(http.HandlerFunc(overloadWork), config), func(url string) (*http.Response, error) {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		return curfewhttp.Do(context.Background(), budget.Within(patient), client, r)
	}}
}

// canDo returns how many answers a second the server gives to as many clients as it
// handles at once, who ask again and again for as long as lasts.
func canDo(lasts time.Duration) float64 {
	server := httptest.NewServer(http.HandlerFunc(overloadWork))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: width}}
	var answers atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range width {
		all.Go(func() {
			for more := true; more; more = time.Since(began) < lasts {
				if resp, err := client.Get(server.URL); err == nil && isDone(resp) {
					answers.Add(1)
				}
			}
		})
	}
	all.Wait()
	if answers.Load() == 0 {
		panic("a server that is not overloaded gave no answer")
	}
	return float64(answers.Load()) / time.Since(began).Seconds()
}

// isDone reads an answer and reports whether it is one.
func isDone(resp *http.Response) bool {
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return err == nil && string(text) == "done"
}

// offer sends so many requests a second, for as long as lasts, and returns how many
// answers a second came in time. Those of the first quarter do not count, in which the
// queue fills, nor those that come behind lasts, when it empties.
func offer(o overloaded, load float64, lasts time.Duration) (goodput float64) {
	server := httptest.NewServer(o.handler)
	defer server.Close()
	var good atomic.Int64
	var all sync.WaitGroup
	every := time.Duration(float64(time.Second) / load)
	began, fills := time.Now(), lasts/4
	for n := 0; time.Since(began) < lasts; n++ {
		time.Sleep(time.Until(began.Add(time.Duration(n) * every)))
		all.Go(func() {
			resp, err := o.get(server.URL)
			if err != nil || !isDone(resp) {
				return
			}
			if at := time.Since(began); at >= fills && at < lasts {
				good.Add(1)
			}
		})
	}
	all.Wait()
	return float64(good.Load()) / (lasts - fills).Seconds()
}

func overloadCases(s Scale) []Case {
	lasts := pick(s, 3*time.Second, time.Second)
	loads := pick(s, []float64{.5, .8, 1, 1.5, 2, 3}, []float64{1, 2})
	if s.Tiny {
		lasts, loads = 100*time.Millisecond, []float64{2}
	}
	rounds := pick(s, 2, 1)
	could := sync.OnceValue(func() float64 { return canDo(lasts / 2) })
	var cases []Case
	for _, times := range loads {
		of := func(name string, make func() overloaded) System {
			return System{name, func() Work {
				capacity := could() // before the first case
				return Work{Sample: func() []Metric { return []Metric{{"goodput-%", 100 * offer(make(), times*capacity, lasts) / capacity}} }}
			}}
		}
		cases = append(cases, Case{
			Name: fmt.Sprintf(overloadName, times), Parent: "none", Main: "goodput-%", More: true,
			Rounds: rounds, Takes: time.Duration(rounds) * 2 * (lasts + patient),
			Systems: []System{of("curfew", overloadCurfew), of("std", overloadStd)},
		})
	}
	return cases
}
