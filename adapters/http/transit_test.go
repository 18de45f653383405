package curfewhttp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	curfewhttp "github.com/curfew-go/curfew/adapters/http"
	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// isCallee is set in the environment of the other process.
const isCallee = "CURFEW_TEST_CALLEE"

// A seat is what the callee sees, in nanoseconds since 1970.
type seat struct{ At, Deadline int64 }

// TestCalleeProcess is not a test but the other process: it serves until its standard
// input ends.
func TestCalleeProcess(t *testing.T) {
	if os.Getenv(isCallee) == "" {
		return
	}
	s := httptest.NewServer(curfewhttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline()
		now := time.Now()
		json.NewEncoder(w).Encode(seat{now.UnixNano(), now.Add(time.Until(deadline)).UnixNano()})
	}), curfewhttp.Config{Max: time.Hour}))
	defer s.Close()
	fmt.Println("callee", s.Listener.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// callee starts the other process and returns its address.
func callee(t *testing.T) string {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCalleeProcess$", "-test.v")
	cmd.Env = append(os.Environ(), isCallee+"=1")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { in.Close(); io.Copy(io.Discard, out); cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "callee "); ok {
			return addr
		}
	}
	t.Fatal("the other process does not serve")
	return ""
}

// delayed returns the address of a proxy to addr that holds every piece of a request
// back for transit.
func delayed(t *testing.T, addr string, transit time.Duration) string {
	return listen(t, func(c net.Conn) {
		to, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer to.Close()
		go io.Copy(c, to)
		piece := make([]byte, 4096)
		for {
			n, err := c.Read(piece)
			if err != nil {
				return
			}
			<-time.After(transit)
			to.Write(piece[:n])
		}
	})
}

// Two processes and a slow way between them: with the numbers of 1000 ms left, 50 ms
// of slush and 30 ms of transit the callee ends early, and on a way that is longer
// than the slush it ends late by no more than transit less slush.
func TestACalleeEndsBeforeItsCallerUnlessTheWayIsLongerThanTheSlush(t *testing.T) {
	const remaining, slush = 1000 * ms, 50 * ms
	addr := callee(t)
	early := false
	for _, transit := range []time.Duration{0, 30 * ms, 30 * ms, 30 * ms, 150 * ms} {
		base := &http.Transport{}
		tr := &curfewhttp.Transport{Base: base, Slush: wire.Slush{Floor: slush, Cap: slush}}
		ctx := enter(t, t.Context(), budget.Within(remaining))
		deadline, _ := ctx.Deadline()
		sent := time.Now()
		mine := sent.Add(time.Until(deadline)).UnixNano()
		resp, err := tr.RoundTrip(ask(t, ctx, "GET", "http://"+delayed(t, addr, transit), ""))
		require.NoError(t, err)
		var theirs seat
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&theirs))
		resp.Body.Close()
		base.CloseIdleConnections()

		way := time.Duration(theirs.At - sent.UnixNano()) // as it was, on a busy machine
		late := time.Duration(theirs.Deadline - mine)
		t.Logf("transit %v, in fact %v: the callee ends %v after its caller", transit, way, late)
		assert.GreaterOrEqual(t, way, transit)
		assert.LessOrEqual(t, late, way-slush+ms, "a millisecond for two readings of the clock")
		assert.GreaterOrEqual(t, late, transit-slush-2*ms, "nothing is taken off twice")
		if way <= slush-ms {
			assert.LessOrEqual(t, late, time.Duration(0))
			early = early || transit > 0
		}
	}
	if !early {
		t.Log("the machine was too busy for a way of 30 ms to be shorter than the slush")
	}
}
