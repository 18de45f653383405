package curfewhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/retrybudget"
)

func TestAResponseSaysWhoseTimeRanOut(t *testing.T) {
	for _, tt := range []struct {
		status int
		result string
		kind   budget.Kind
		safe   bool
	}{
		{200, "", budget.None, false},
		{304, "", budget.None, false},
		{400, "", budget.Failed, false},
		{404, "ok", budget.Failed, false},
		{500, "", budget.Failed, false},
		{429, "", budget.Overloaded, true},
		{408, "", budget.DependencyTimeout, true},
		{503, "", budget.Overloaded, false},
		{504, "", budget.DependencyTimeout, false},
		{504, "deadline_exceeded", budget.DeadlineExceeded, false},
		{504, "deadline_exceeded;own-limit", budget.DependencyTimeout, false},
		{504, "dependency_timeout", budget.DependencyTimeout, false},
		{503, "expired_on_arrival;not-started", budget.ExpiredOnArrival, true},
		{503, "local_budget_rejected;not-started", budget.LocalBudgetRejected, true},
		{503, "overloaded;not-started", budget.Overloaded, true},
		{503, "overloaded;not-started;retried", budget.Overloaded, false},
		{503, "shutdown;not-started", budget.Shutdown, true},
		{500, "sibling_failed", budget.Failed, false},
		{499, "client_cancelled", budget.Failed, false},
		{409, "user_cancelled", budget.Failed, false},
		{503, "no result at all", budget.Overloaded, false},
	} {
		resp := replying(tt.status)
		if tt.result != "" {
			resp = replying(tt.status, curfewhttp.ResultHeader, tt.result)
		}
		err := curfewhttp.CheckResponse(resp)
		assert.Equal(t, tt.kind, budget.KindOf(err), "%d %s", tt.status, tt.result)
		assert.Equal(t, tt.safe, retrybudget.SafeToRetry(err), "%d %s", tt.status, tt.result)
		assert.NotErrorIs(t, err, context.Canceled, "that the peer cancelled something")
		if tt.status < 400 {
			assert.NoError(t, err)
			continue
		}
		var e *curfewhttp.StatusError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, tt.status, e.Status)
		assert.Equal(t, strings.Contains(tt.result, "retried"), e.RetriedBelow())
	}
}

func TestAProblemSaysWhichLimitOfThePeersItWas(t *testing.T) {
	resp := replying(504, "Content-Type", "application/problem+json; charset=utf-8", curfewhttp.ResultHeader, "deadline_exceeded;own-limit")
	resp.Body = io.NopCloser(strings.NewReader(`{"title":"out of time\u001b[31m","limited_by":"route maximum 2s","phase":"handler","secret":"hush"}`))
	resp.Request = ask(t, t.Context(), "GET", "http://user:hush@Inventory.test:8080/stock?token=hush", "")
	err := curfewhttp.CheckResponse(resp)
	assert.EqualError(t, err, "budget: dependency timeout: phase handler, limit the peer's route maximum 2s: "+
		"curfewhttp: inventory.test:8080 answered 504 Gateway Timeout: out of time[31m")
}

// counting counts what is read and closed.
type counting struct {
	io.Reader
	read, closed int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}
func (c *counting) Close() error { c.closed++; return nil }

func TestOfABodyNoMoreIsReadThanABound(t *testing.T) {
	for kind, most := range map[string]int{"application/problem+json": 8 << 10, "application/problem+jso": 0, "text/html": 0, "": 0, ";;": 0} {
		resp := replying(500, "Content-Type", kind)
		b := &counting{Reader: strings.NewReader(`{"title":"` + strings.Repeat("x", 1<<20) + `"}`)}
		resp.Body = b
		err := curfewhttp.CheckResponse(resp)
		assert.EqualError(t, err, "budget: failed: curfewhttp: the peer answered 500 Internal Server Error")
		assert.Equal(t, most, b.read, kind)
		assert.Equal(t, 1, b.closed, kind)
	}
	resp := replying(500, "Content-Type", "application/problem+json")
	resp.Body = io.NopCloser(strings.NewReader(`{"title":"` + strings.Repeat("é", 1000) + `"}`))
	var e *curfewhttp.StatusError
	require.ErrorAs(t, curfewhttp.CheckResponse(resp), &e)
	assert.LessOrEqual(t, len(e.Title), 200)
	assert.Equal(t, strings.Repeat("é", len(e.Title)/2), e.Title, "cut between runes")
	assert.PanicsWithValue(t, "curfewhttp: CheckResponse: nil response", func() { curfewhttp.CheckResponse(nil) })
}

func TestJudgeTellsAnswersFromFailures(t *testing.T) {
	check := func(status int, pairs ...string) error { return curfewhttp.CheckResponse(replying(status, pairs...)) }
	for name, tt := range map[string]struct {
		err  error
		want retrybudget.Verdict
	}{
		"not found":      {check(404), retrybudget.Verdict{Ran: true, Answered: true}},
		"broken":         {check(500), retrybudget.Verdict{Ran: true}},
		"too many":       {check(429, "Retry-After", "3"), retrybudget.Verdict{Retry: true, After: 3 * time.Second}},
		"unavailable":    {check(503, "Retry-After", "1"), retrybudget.Verdict{Retry: true, Ran: true, After: time.Second}},
		"out of ours":    {check(504, curfewhttp.ResultHeader, "deadline_exceeded"), retrybudget.Verdict{Ran: true}},
		"no certificate": {&tls.CertificateVerificationError{Err: errors.New("expired")}, retrybudget.Verdict{}},
		"reset":          {errors.New("reset"), retrybudget.Verdict{Retry: true, Ran: true}},
	} {
		assert.Equal(t, tt.want, curfewhttp.Judge(tt.err), name)
	}
}

func TestAnAttemptIsReadAsItWasWritten(t *testing.T) {
	for value, want := range map[string]struct {
		n     int
		hedge bool
	}{
		"1": {1, false}, "2": {2, false}, "2;hedge": {2, true}, "3;hedge=?1": {3, true}, "3;hedge=?0": {3, false},
		"4;later=1;hedge": {4, true}, "4; hedge": {4, true}, "9999": {9999, false}, "007": {7, false},
		"": {1, false}, "0": {1, false}, "-2": {1, false}, "+2": {1, false}, "2.0": {1, false}, "two": {1, false},
		"10000": {1, false}, "99999999999999999999": {1, false}, ";hedge": {1, false}, "2, 3": {1, false}, "٢": {1, false},
	} {
		n, hedge := curfewhttp.AttemptOf(http.Header{curfewhttp.AttemptHeader: {value}})
		assert.Equal(t, want.n, n, "%q", value)
		assert.Equal(t, want.hedge, hedge, "%q", value)
	}
	for _, values := range [][]string{nil, {"2", "2"}} {
		n, hedge := curfewhttp.AttemptOf(http.Header{curfewhttp.AttemptHeader: values})
		assert.True(t, n == 1 && !hedge, values)
	}
}

func FuzzAttemptOf(f *testing.F) {
	for _, seed := range []string{"", "1", "2;hedge", "9999;hedge", "99999999999", "2;;", ";", "2;hedge;hedge=?0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		n, hedge := curfewhttp.AttemptOf(http.Header{curfewhttp.AttemptHeader: {value}})
		if n < 1 || n > 9999 || hedge && !strings.Contains(value, "hedge") {
			t.Fatalf("%q: %d %t", value, n, hedge)
		}
	})
}
