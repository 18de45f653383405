package stream

import (
	"bytes"
	"context"
	"io"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fakeServer is the other end of a Conn.
type fakeServer struct {
	t    *testing.T
	conn net.Conn
}

// heard returns the next n bytes that the server got.
func (s *fakeServer) heard(n int) []byte {
	p := make([]byte, n)
	_, err := io.ReadFull(s.conn, p)
	require.NoError(s.t, err)
	return p
}

func (s *fakeServer) says(messages ...[]byte) {
	_, err := s.conn.Write(bytes.Join(messages, nil))
	assert.NoError(s.t, err)
}

var hello = bytes.Join([][]byte{reply('R', "\x00\x00\x00\x00"), reply('S', "server_version\x0015\x00"), reply('S', "zone\x00here\x00"), reply('K', "12345678"), ready}, nil)

// running returns a Conn that has logged in and written p under a limit, and where its session goes.
func running(t *testing.T, c Config, p []byte) (*Conn, *fakeServer, <-chan *Session) {
	near, far := net.Pipe()
	server := &fakeServer{t, far}
	kept := make(chan *Session, 1)
	c.Keep = func(s *Session) { kept <- s }
	conn := New(near, c)
	t.Cleanup(func() { near.Close(); far.Close() })
	go func() {
		server.heard(len("startup"))
		server.says(hello)
	}()
	_, err := conn.Write([]byte("startup"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, len(hello)))
	require.NoError(t, err)
	conn.Arm(time.Now().Add(time.Hour))
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		kind := server.heard(headerLen)
		n, _ := bodyLen(kind)
		server.heard(n)
	}()
	_, err = conn.Write(p)
	require.NoError(t, err)
	<-heard
	return conn, server, kept
}

// giveUp has the deadline of conn's call pass.
func giveUp(t *testing.T, conn *Conn) {
	conn.Ended(context.DeadlineExceeded)
	conn.Alone()
	require.NoError(t, conn.SetDeadline(time.Unix(1, 0)))
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.Error(t, conn.Lost())
}

func TestASessionIsReadToItsEndAndIsThenAsNew(t *testing.T) {
	for tx, undone := range map[byte][]byte{'I': nil, 'E': append(reply('C', "ROLLBACK\x00"), ready...)} {
		for _, piece := range []int{1, 3, 1 << 10} {
			conn, server, kept := running(t, Config{}, query("select 1"))
			giveUp(t, conn)
			session := <-kept
			assert.ErrorIs(t, conn.SetDeadline(time.Time{}), net.ErrClosed, "the old one moves nothing")
			require.NoError(t, conn.Close())
			_, err := conn.Write(query("select 2"))
			assert.Error(t, err)
			go func() {
				rest := bytes.Join([][]byte{reply('C', "SET\x00"), reply('D', "1"), reply('S', "zone\x00there\x00"), reply('E', "C57014\x00\x00"), reply('Z', string(tx))}, nil)
				for len(rest) > 0 {
					n := min(piece, len(rest))
					server.says(rest[:n])
					rest = rest[n:]
				}
				asked := make([]byte, 1<<10)
				n, err := server.conn.Read(asked)
				assert.NoError(t, err)
				asked = asked[:n]
				assert.Equal(t, tx == 'E', bytes.HasPrefix(asked, query("rollback")))
				assert.True(t, bytes.HasSuffix(asked, query("discard all")))
				server.says(undone, tokenRow(asked), ready, reply('N', ""), reply('S', "zone\x00home\x00"), reply('C', "DISCARD ALL\x00"), ready)
			}()
			require.NoError(t, session.Settle(time.Now().Add(time.Minute)))
			require.NoError(t, session.WatchUntil(time.Unix(1, 0)))
			require.NoError(t, session.Watch())

			inner, err := session.Resume()
			require.NoError(t, err)
			again := New(inner, Config{})
			_, err = again.Write([]byte("startup"))
			require.NoError(t, err)
			got := make([]byte, len(hello))
			_, err = io.ReadFull(again, got)
			require.NoError(t, err)
			assert.Equal(t, string(bytes.Replace(hello, []byte("here"), []byte("home"), 1)), string(got))
			go func() { _, _ = again.Write(query("select 3")) }()
			assert.Equal(t, query("select 3"), server.heard(len(query("select 3"))), "and nothing before it")
		}
	}
}

// tokenRow answers the statement of asked that a session recognises its own answers by.
func tokenRow(asked []byte) []byte {
	token := string(regexp.MustCompile(`select '(\w+)'`).FindSubmatch(asked)[1])
	return bytes.Join([][]byte{reply('T', "x"), reply('D', "\x00\x01\x00\x00\x00"+string(rune(len(token)))+token), reply('C', "SELECT 1\x00")}, nil)
}

func TestASessionThatAnswersOtherwiseIsNotAsNew(t *testing.T) {
	end := append(reply('C', "SELECT 1\x00"), ready...)
	for name, says := range map[string]func(asked []byte) []byte{
		"a row of another call": func([]byte) []byte {
			return bytes.Join([][]byte{reply('T', "x"), reply('D', "\x00\x01\x00\x00\x00\x011"), end}, nil)
		},
		"an error": func([]byte) []byte { return append(reply('E', "C57014\x00\x00"), ready...) },
		"one answer too many": func(asked []byte) []byte {
			return bytes.Join([][]byte{tokenRow(asked), ready, reply('C', "DISCARD ALL\x00"), ready, ready}, nil)
		},
		"no end of it": func([]byte) []byte { return make([]byte, 64<<10) },
		"a transaction": func(asked []byte) []byte {
			return append(tokenRow(asked), reply('Z', "T")...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, server, kept := running(t, Config{}, query("select 1"))
			giveUp(t, conn)
			session := <-kept
			go func() {
				server.says(reply('C', "SET\x00"), reply('E', "C57014\x00\x00"), ready)
				asked := make([]byte, 1<<10)
				n, _ := server.conn.Read(asked)
				_, _ = server.conn.Write(says(asked[:n]))
			}()
			assert.ErrorIs(t, session.Settle(time.Now().Add(time.Minute)), errUnclean)
			session.Close()
		})
	}
	t.Run("nothing", func(t *testing.T) {
		conn, _, kept := running(t, Config{}, query("select 1"))
		giveUp(t, conn)
		assert.Error(t, (<-kept).Settle(time.Now().Add(time.Millisecond)))
	})
	t.Run("it asks for data", func(t *testing.T) {
		conn, server, kept := running(t, Config{}, query("copy t from stdin"))
		giveUp(t, conn)
		go server.says(reply('C', "SET\x00"), reply('G', "\x00\x00\x00"))
		assert.ErrorIs(t, (<-kept).Settle(time.Now().Add(time.Minute)), errCopying)
	})
}

func TestWhatIsNotCertainIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		burst  []byte
		before func(conn *Conn, server *fakeServer)
	}{
		"a message that is not whole": {burst: query("select 1")[:12]},
		"a burst without its end":     {burst: appendParse(nil, "", "select 1")},
		"a server that waits for data": {burst: query("copy t from stdin"), before: func(conn *Conn, server *fakeServer) {
			go server.says(reply('C', "SET\x00"), reply('G', "\x00\x00\x00"))
			_, err := io.ReadFull(conn, make([]byte, headerLen+3))
			require.NoError(t, err)
		}},
		"a pooler":               {config: Config{Nameless: true}, burst: query("select 1")},
		"one that is closed":     {burst: query("select 1"), before: func(conn *Conn, _ *fakeServer) { conn.mu.Lock(); conn.closing = true; conn.mu.Unlock() }},
		"one that is written to": {burst: query("select 1"), before: func(conn *Conn, _ *fakeServer) { conn.writing.Lock() }},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			t.Cleanup(func() { near.Close(); far.Close() })
			c.config.Keep = func(*Session) { t.Error("kept") }
			conn := New(near, c.config)
			server := &fakeServer{t, far}
			go server.says(hello)
			_, err := io.ReadFull(conn, make([]byte, len(hello)))
			require.NoError(t, err)
			conn.Arm(time.Now().Add(time.Hour))
			go func() { _, _ = conn.Write(c.burst) }()
			_, err = far.Read(make([]byte, 1<<10))
			require.NoError(t, err)
			conn.writing.Lock() // until the Write is over
			conn.state.inForce = max(conn.state.inForce, time.Second)
			conn.writing.Unlock()
			if c.before != nil {
				c.before(conn, server)
			}
			giveUp(t, conn)
			_, err = far.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF)
		})
	}
	conn, _, kept := running(t, Config{}, query("select 1"))
	conn.Ended(context.DeadlineExceeded) // and a cancel may be under way
	require.NoError(t, conn.SetDeadline(time.Unix(1, 0)))
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	assert.Empty(t, kept)
}
