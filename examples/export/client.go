package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
)

// A client asks a service, which may be another one from one question to the next.
type client struct {
	url  string
	http http.Client
}

func newClient() *client { return &client{http: http.Client{Transport: &curfewhttp.Transport{}}} }

// ask returns the status code of the answer, and the status in it, when it holds one.
func (c *client) ask(ctx context.Context, method, path string) (code int, s status, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, nil)
	if err != nil {
		return 0, s, err
	}
	answer, err := curfewhttp.Do(ctx, budget.Within(askAtMost).Named("one request"), &c.http, r)
	if err != nil {
		return 0, s, err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 300 {
		err = json.NewDecoder(answer.Body).Decode(&s)
	}
	return answer.StatusCode, s, err
}

const (
	askAtMost  = 5 * time.Second
	askAgain   = 10 * time.Millisecond // a person's browser would take the second that Retry-After says
	untilEnded = 30 * time.Second
)

// create asks for an export and returns its id.
func (c *client) create(ctx context.Context) (id string, err error) {
	code, s, err := c.ask(ctx, http.MethodPost, "/exports")
	if err == nil && code != http.StatusAccepted {
		err = fmt.Errorf("the service answered %d", code)
	}
	return s.ID, err
}

// until polls the job's status until it is as wanted.
func (c *client) until(ctx context.Context, id string, wanted func(status) bool) (status, error) {
	ctx, cancel, err := budget.Enter(ctx, budget.Within(untilEnded))
	defer cancel()
	if err != nil {
		return status{}, err
	}
	for {
		_, s, err := c.ask(ctx, http.MethodGet, "/exports/"+id)
		if err != nil || wanted(s) {
			return s, err
		}
		if err := wait(ctx, askAgain); err != nil {
			return s, fmt.Errorf("export is %s %s: %w", s.State, s.Phase, err)
		}
	}
}

func over(s status) bool { return s.State != running }

// rows reads the job's file and counts its rows. An id that is there twice, or a row out of order, is an
// error.
func (c *client) rows(ctx context.Context, s status) (n int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+s.File, nil)
	if err != nil {
		return 0, err
	}
	answer, err := curfewhttp.Do(ctx, budget.Within(askAtMost), &c.http, r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	z, err := gzip.NewReader(answer.Body)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		n++
		if id, _, _ := strings.Cut(lines.Text(), ","); id != strconv.Itoa(n) {
			return n, fmt.Errorf("row %d is %q", n, lines.Text())
		}
	}
	return n, lines.Err()
}
