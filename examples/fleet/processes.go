package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// members are the processes of the fleet.
type members struct {
	processes []*exec.Cmd
	ends      []io.Closer // standard inputs: their end is the members'
}

// startMembers starts this program n times more. They end with ctx.
func startMembers(ctx context.Context, n int, o order) (*members, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	m := &members{}
	for range n {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
		cmd.Stderr = os.Stderr
		end, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting a member: %w", err), m.stop())
		}
		m.processes, m.ends = append(m.processes, cmd), append(m.ends, end)
	}
	return m, nil
}

// stop lets the members leave, and waits until they have.
func (m *members) stop() (err error) {
	for _, end := range m.ends {
		err = errors.Join(err, end.Close())
	}
	for _, p := range m.processes {
		err = errors.Join(err, p.Wait())
	}
	return err
}

// A store is a Redis of our own, which forgets everything at its end.
type store struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

func startRedis(ctx context.Context) (_ *store, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not on PATH: install Redis 6 or later, or Valkey with its redis-server link (on Debian: apt-get install redis-server)")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{addr: free.Addr().String()}
	_, port, _ := net.SplitHostPort(s.addr)
	if err := free.Close(); err != nil { // somebody else may be faster; then Redis says so
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "curfew-fleet-"); err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, program, "--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no")
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer client.Close()
	for began := time.Now(); client.Ping(ctx).Err() != nil; {
		if ctx.Err() != nil || time.Since(began) > 10*time.Second {
			return nil, errors.Join(errors.New("redis-server did not start within ten seconds"), s.stop())
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s, nil
}

func (s *store) stop() error {
	_ = s.cmd.Process.Kill() // there is nothing to keep
	_ = s.cmd.Wait()
	return os.RemoveAll(s.dir)
}
