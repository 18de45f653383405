package curfewhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/meter"
	"github.com/curfew-go/curfew/retrybudget"
)

// speak sends text over a connection of its own and returns the answer's status, 0 for
// none.
func (s *server) speak(t *testing.T, text string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	go func() { _, _ = io.WriteString(conn, text) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// Whatever a client says about time, it gets an answer that fits, and never more time
// than the route allows.
func TestWhatAHostileClientSaysNeverGivesItMoreTime(t *testing.T) {
	var mu sync.Mutex
	var longest time.Duration
	h := curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		left := look(r.Context()).left
		mu.Lock()
		longest = max(longest, left)
		mu.Unlock()
	}), curfewhttp.Config{Max: time.Second, RequestStart: "X-Request-Start"})
	s := serve(t, h, false)
	const name = curfewhttp.Header
	flood := strings.Repeat(name+": 900000\r\n", 5000)
	for what, c := range map[string]struct {
		headers string
		want    []int
	}{
		"nothing":                     {"", []int{200}},
		"a flood of valid ones":       {flood, []int{200}},
		"a flood beyond the server's": {strings.Repeat(flood, 20), []int{431}},
		"a flood of other ones":       {strings.Repeat("X-A: b\r\n", 20_000), []int{200}},
		"huge":                        {name + ": " + strings.Repeat("9", 100_000) + "\r\n", []int{400}},
		"the largest":                 {name + ": 9223372036854775807\r\n", []int{200, 400}},
		"beyond the largest":          {name + ": 9223372036854775808\r\n", []int{400}},
		"a sign":                      {name + ": +100\r\n", []int{400}},
		"negative":                    {name + ": -1\r\n", []int{400}},
		"a fraction":                  {name + ": 1.5\r\n", []int{400}},
		"an exponent":                 {name + ": 1e9\r\n", []int{400}},
		"hexadecimal":                 {name + ": 0x10\r\n", []int{400}},
		"empty":                       {name + ":\r\n", []int{400}},
		"other digits":                {name + ": ٣٠٠\r\n", []int{400}},
		"a null":                      {name + ": 1\x0000\r\n", []int{400}},
		"a folded line":               {name + ": 10\r\n 00\r\n", []int{200, 400}},
		"a list":                      {name + ": 100, 200\r\n", []int{400}},
		"one valid, one not":          {name + ": 100\r\n" + name + ": soon\r\n", []int{400}},
		"conflicting forms":           {name + ": 900000\r\ngrpc-timeout: 99999999H\r\n", []int{200}},
		"grpc with a long number":     {"grpc-timeout: 999999999S\r\n", []int{400}},
		"grpc without a unit":         {"grpc-timeout: 1\r\n", []int{400}},
		"a queue from the future":     {"X-Request-Start: t=99999999999999\r\n", []int{200, 400}},
		"a queue of negative time":    {"X-Request-Start: t=-5\r\n", []int{200, 400}},
		"a queue of garbage":          {"X-Request-Start: ;;;\r\n", []int{200, 400}},
		"an attempt of garbage":       {curfewhttp.AttemptHeader + ": " + strings.Repeat("9", 50) + "\r\n", []int{200}},
	} {
		status, body := s.speak(t, "GET /order HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+c.headers+"\r\n")
		assert.Contains(t, c.want, status, "%s: %s", what, body)
		assert.Less(t, len(body), 1000, what)
	}
	assert.LessOrEqual(t, longest, time.Second)
	assert.NotContains(t, s.log.String(), "panic")
}

// A random mixture of such things is answered, and the server goes on.
func TestGarbageAboutTimeIsNeverMoreThanABadRequest(t *testing.T) {
	h := curfewhttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.LessOrEqual(t, look(r.Context()).left, time.Second)
	}), curfewhttp.Config{Max: time.Second, RequestStart: "X-Request-Start"})
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{curfewhttp.Header, "grpc-timeout", "X-Envoy-Expected-Rq-Timeout-Ms", "X-Request-Start", curfewhttp.AttemptHeader, curfewhttp.ResultHeader}
	const alphabet = "0123456789-+.,;= eEHMSmunt\x00\xff\t\"x"
	for range 20_000 {
		header := http.Header{}
		for range random.IntN(6) {
			value := make([]byte, random.IntN(24))
			for i := range value {
				value[i] = alphabet[random.IntN(len(alphabet))]
			}
			name := names[random.IntN(len(names))]
			header[http.CanonicalHeaderKey(name)] = append(header[http.CanonicalHeaderKey(name)], string(value))
		}
		w := &codes{nobody: nobody{make(http.Header)}}
		h.ServeHTTP(w, (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: header, ProtoMajor: 1}).WithContext(t.Context()))
		require.Contains(t, []int{200, 400, 503, 504}, w.code, "%q", header)
	}
}

// codes notes the status.
type codes struct {
	nobody
	code int
}

func (w *codes) WriteHeader(code int) { w.code = code }

// What a caller has in the address of a request stays out of everything that is
// written about it: userinfo, query and fragment.
func TestSecretsOfAnAddressStayOutOfWhatIsSaidAboutACall(t *testing.T) {
	var log bytes.Buffer
	var counts meter.Memory
	var said strings.Builder
	closed := listen(t, func(c net.Conn) { c.Close() })
	silent := listen(t, silentPeer)
	for _, host := range []string{closed, silent, "127.0.0.1:1"} {
		ctx := enter(t, t.Context(), budget.Within(200*ms))
		tries := retrybudget.New("peer", retrybudget.Config{})
		tr := &curfewhttp.Transport{Base: &http.Transport{}, Budget: func(string) *retrybudget.Budget { return tries }, Meter: &counts}
		u := &url.URL{Scheme: "http", User: url.UserPassword("user", "secret-password"), Host: host, Path: "/order", RawQuery: "token=secret-token", Fragment: "secret-fragment"}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		require.NoError(t, err)
		_, err = tr.RoundTrip(r) // http.Client adds the address to what it returns, without the password
		require.Error(t, err)
		fmt.Fprintf(&said, "%v %+v %v ", err, err, context.Cause(ctx))
		w := curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { curfewhttp.Error(w, r, err) }),
			curfewhttp.Config{Log: slog.New(slog.NewJSONHandler(&log, nil)), Recorder: &counts, ServerTiming: true})
		answer := &sink{nobody: nobody{make(http.Header)}}
		w.ServeHTTP(answer, httpRequest)
		fmt.Fprint(&said, answer.header, answer.String())
	}
	fmt.Fprint(&said, log.String(), counts.String())
	assert.NotContains(t, said.String(), "secret")
	assert.Contains(t, said.String(), closed, "but the host is named")
}

// sink keeps what is written.
type sink struct {
	nobody
	bytes.Buffer
}

func (w *sink) Write(p []byte) (int, error) { return w.Buffer.Write(p) }
