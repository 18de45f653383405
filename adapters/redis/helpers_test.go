package curfewredis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/retrybudget"
)

var errDown = errors.New("503 service unavailable")

func idempotent(backoff time.Duration) retrybudget.Policy {
	return retrybudget.Policy{Idempotent: true, Attempts: 2, Backoff: retrybudget.Backoff{Base: backoff}}
}

// listen serves every connection on a free port by serve, until the test ends.
func listen(t testing.TB, serve func(net.Conn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var conns []net.Conn // under mu, as ended
	var ended bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if conns = append(conns, conn); ended {
				_ = conn.Close() // accepted when the others were closed
			}
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		ended = true
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// proxy forwards to addr, or swallows what comes while the switch is on.
func proxy(t testing.TB, addr string, swallow *atomic.Bool) string {
	return listen(t, func(conn net.Conn) {
		up, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer up.Close()
		go func() {
			_, _ = io.Copy(conn, up)
			_ = conn.Close()
		}()
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			if !swallow.Load() {
				_, _ = up.Write(buffer[:n])
			}
		}
	})
}

// who stands in a reply of a fake for the text that names who asks.
const who = "<who>"

// fake is a server that answers each script call with reply, and hangs up for an
// empty one.
func fake(t testing.TB, reply string) string {
	return listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		number := func() int {
			line, _ := in.ReadString('\n')
			n, _ := strconv.Atoi(strings.TrimSpace(line)[min(1, len(strings.TrimSpace(line))):])
			return n
		}
		for {
			words := make([]string, number())
			for i := range words {
				word := make([]byte, number()+2)
				if _, err := io.ReadFull(in, word); err != nil {
					return
				}
				words[i] = string(word[:len(word)-2])
			}
			answer := "+OK\r\n"
			switch {
			case len(words) == 0:
				return
			case strings.EqualFold(words[0], "hello"):
				answer = "-ERR unknown command\r\n"
			case strings.HasPrefix(strings.ToLower(words[0]), "eval"):
				if reply == "" {
					return
				}
				name := words[5] + " " + words[6] // after the script and its two keys
				answer = strings.ReplaceAll(reply, who, fmt.Sprintf("$%d\r\n%s", len(name), name))
			}
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	})
}

// load calls b every millisecond or so until stopped, every other call failing.
// It returns how long each first attempt had to wait to begin.
type load struct {
	b         *retrybudget.Budget
	delays    []time.Duration
	successes int
	retries   int
}

func (l *load) run(d time.Duration) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i, began := 0, time.Now(); time.Since(began) < d; i++ {
		calls, called := 0, time.Now()
		err := retrybudget.Do(context.Background(), l.b, idempotent(time.Microsecond), func(context.Context) error {
			if calls++; calls == 1 {
				l.delays = append(l.delays, time.Since(called))
			}
			if i%2 == 0 {
				return nil
			}
			return errDown
		})
		if err == nil {
			l.successes++
		}
		l.retries += calls - 1
		<-tick.C
	}
}

// quantile returns the q-th of the delays.
func (l *load) quantile(q float64) time.Duration {
	slices.Sort(l.delays)
	return l.delays[int(float64(len(l.delays)-1)*q)]
}

// soon fails unless ok within a bound that is far above what is expected, and
// returns how long it took.
func soon(t testing.TB, what string, ok func() bool) time.Duration {
	began := time.Now()
	assert.Eventually(t, ok, time.Minute, 5*time.Millisecond, what)
	return time.Since(began)
}
