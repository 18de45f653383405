package netproxy_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/netproxy"
)

// room bounds what happens at once.
const room = 20 * time.Second

// An echo answers each line with the same line, and counts what it has read.
type echo struct {
	addr  string
	bytes atomic.Int64
}

func newEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	e := &echo{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 100)
				for {
					n, err := c.Read(buf)
					e.bytes.Add(int64(n))
					if err != nil {
						return
					}
					_, _ = c.Write(buf[:n])
				}
			}()
		}
	}()
	return e
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *netproxy.Proxy) *client {
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(room)))
	return &client{c, bufio.NewReader(c)}
}

func (c *client) ask(line string) (string, error) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	return c.in.ReadString('\n')
}

// silent reports that nothing comes, for as long as it takes to be fairly sure.
func (c *client) silent(t *testing.T, line string) {
	require.NoError(t, c.SetDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := c.ask(line)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)
	require.NoError(t, c.SetDeadline(time.Now().Add(room)))
}

func TestAProxyPassesOnAndCountsTurnsAndConnections(t *testing.T) {
	p := netproxy.New(t, newEcho(t).addr)
	for n := range int64(3) {
		c := dial(t, p)
		for range 5 {
			answer, err := c.ask("hello")
			require.NoError(t, err)
			assert.Equal(t, "hello\n", answer)
		}
		assert.Equal(t, 5*(n+1), p.Turns())
		assert.Equal(t, n+1, p.Conns())
	}
}

func TestEachFateDoesWhatItSaysAndSparesTheNextConnection(t *testing.T) {
	for name, c := range map[string]struct {
		fate    netproxy.Fate
		arrives int64 // of the 6 bytes of "fatal\n"
		stays   bool
	}{
		"Pass": {netproxy.Pass, 6, true}, "Drop": {netproxy.Drop, 0, false}, "Half": {netproxy.Half, 3, false},
		"Last": {netproxy.Last, 6, false}, "Unanswered": {netproxy.Unanswered, 6, false},
		"Silenced": {netproxy.Silenced, 6, true}, "Lost": {netproxy.Lost, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := newEcho(t)
			p := netproxy.New(t, server.addr)
			victim := dial(t, p)
			_, err := victim.ask("a")
			require.NoError(t, err)
			p.OnSend(func(b []byte) netproxy.Fate {
				if string(b) == "fatal\n" {
					return c.fate
				}
				return netproxy.Pass
			})
			switch {
			case c.fate == netproxy.Pass:
				_, err = victim.ask("fatal")
				require.NoError(t, err)
			case c.stays:
				victim.silent(t, "fatal")
			default:
				_, err = victim.ask("fatal")
				require.Error(t, err)
				assert.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			}
			assert.Eventually(t, func() bool { return server.bytes.Load() == 2+c.arrives }, room, time.Millisecond, "arrived")
			answer, err := dial(t, p).ask("b")
			require.NoError(t, err)
			assert.Equal(t, "b\n", answer)
		})
	}
}

func TestAnAnswerCanBeLostAloneAndTheLaterOnesArrive(t *testing.T) {
	p := netproxy.New(t, newEcho(t).addr)
	c := dial(t, p)
	p.OnAnswer(func(b []byte) netproxy.Fate {
		if string(b) == "a\n" {
			return netproxy.Lost
		}
		return netproxy.Pass
	})
	c.silent(t, "a")
	answer, err := c.ask("b")
	require.NoError(t, err)
	assert.Equal(t, "b\n", answer)
}

func TestADeafProxyServesOnlyWhatWasThere(t *testing.T) {
	p := netproxy.New(t, newEcho(t).addr)
	old := dial(t, p)
	_, err := old.ask("a")
	require.NoError(t, err)
	p.Deafen(true)
	dial(t, p).silent(t, "b")
	_, err = old.ask("c")
	require.NoError(t, err)
	p.Deafen(false)
	_, err = dial(t, p).ask("d")
	require.NoError(t, err)
}

func TestALossyProxyLosesAndKeepsConnections(t *testing.T) {
	p := netproxy.New(t, newEcho(t).addr)
	c := dial(t, p)
	_, err := c.ask("a")
	require.NoError(t, err)
	p.Lose(true)
	c.silent(t, "b")
	p.Lose(false)
	answer, err := c.ask("c")
	require.NoError(t, err)
	assert.Equal(t, "c\n", answer)
}

func TestADelayIsForBothWays(t *testing.T) {
	p := netproxy.New(t, newEcho(t).addr)
	c := dial(t, p)
	p.Delay(30 * time.Millisecond)
	began := time.Now()
	_, err := c.ask("a")
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestCutAndResetEndWhatIsOpen(t *testing.T) {
	for name, end := range map[string]func(*netproxy.Proxy){"cut": (*netproxy.Proxy).Cut, "reset": (*netproxy.Proxy).Reset} {
		t.Run(name, func(t *testing.T) {
			p := netproxy.New(t, newEcho(t).addr)
			c := dial(t, p)
			_, err := c.ask("a")
			require.NoError(t, err)
			end(p)
			_, err = c.in.ReadString('\n')
			if name == "cut" {
				assert.Equal(t, io.EOF, err)
			} else {
				assert.ErrorIs(t, err, syscall.ECONNRESET)
			}
			_, err = dial(t, p).ask("b")
			require.NoError(t, err)
		})
	}
}
