package servers

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Freeze stops the server with all its processes from running, as a machine
// does that hangs: connections stay open, new ones are accepted by the kernel,
// and nobody answers.
func (s *Server) Freeze() {
	s.own("Freeze").Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.aliveLocked() || s.frozen {
		s.tb.Errorf("servers: Freeze of a %s that is not running", s.Kind)
		return
	}
	if err := freezeTree(s.cmd.Process.Pid); err != nil {
		s.tb.Errorf("servers: Freeze of %s: %v", s.Kind, err)
		return
	}
	s.frozen = true
}

// Thaw lets a frozen server go on where it was.
func (s *Server) Thaw() {
	s.own("Thaw").Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen {
		s.tb.Errorf("servers: Thaw of a %s that is not frozen", s.Kind)
		return
	}
	s.thawLocked()
}

// Stop asks the server to end in good order, without waiting for its clients,
// and returns once it did. A frozen server is thawed first.
func (s *Server) Stop() {
	s.own("Stop").Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.tb.Errorf("servers: Stop of a %s that is down", s.Kind)
		return
	}
	if s.frozen {
		s.thawLocked()
	}
	if err := s.cmd.Process.Signal(s.maker.stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Errorf("servers: Stop of %s: %v", s.Kind, err)
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-s.exited:
		s.cmd = nil
	case <-limit.C:
		s.tb.Errorf("servers: %s did not stop within %v and was killed: %v", s.Kind, stopLimit, s.killLocked())
	}
}

// Kill ends the server with all its processes at once, frozen or not, and
// returns when none of them is left.
func (s *Server) Kill() {
	s.own("Kill").Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.tb.Errorf("servers: Kill of a %s that is down", s.Kind)
		return
	}
	if err := s.killLocked(); err != nil {
		s.tb.Errorf("servers: Kill of %s: %v", s.Kind, err)
	}
}

// Restart starts a server that is down on the same port and data, and returns
// once it answers; a server that is up is stopped first. Redis forgets its data
// over a restart unless it was started with appendonly=yes.
func (s *Server) Restart() {
	s.own("Restart").Helper()
	s.mu.Lock()
	down := s.cmd == nil
	s.mu.Unlock()
	if !down {
		s.Stop()
	}
	s.restart()
}

func (s *Server) restart() {
	s.tb.Helper()
	s.mu.Lock()
	err := s.runLocked()
	s.mu.Unlock()
	if err == nil {
		err = s.waitUntilReady()
	}
	if err != nil {
		s.tb.Fatalf("servers: %s did not start: %v\n%s", s.Kind, err, s.tail())
	}
}

func (s *Server) runLocked() error {
	programs, err := find(s.maker.programs)
	if err != nil {
		return err
	}
	args, err := s.maker.command(s, programs)
	if err != nil {
		return err
	}
	logFile, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logFile.Close()
	cmd := command(s.dir, args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if err := cmd.Start(); err != nil {
		return err
	}
	guardWatch(cmd.Process.Pid)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says why it ended
		guardForget(cmd.Process.Pid)
		close(exited)
	}()
	s.cmd, s.exited, s.frozen = cmd, exited, false
	return nil
}

func (s *Server) waitUntilReady() error {
	s.mu.Lock()
	exited := s.exited
	s.mu.Unlock()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	pause := time.NewTicker(pingPause)
	defer pause.Stop()
	for {
		err := s.pingWithin(pingLimit)
		select {
		case <-exited:
			return errors.New("it ended before it was ready")
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-exited:
		case <-pause.C:
		case <-limit.C:
			return fmt.Errorf("it was not ready within %v: %w", startLimit, err)
		}
	}
}

func (s *Server) pingWithin(limit time.Duration) error {
	conn, err := net.DialTimeout("tcp", s.Addr(), limit)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	return s.maker.ping(s, conn)
}

// aliveLocked reports whether the server has not ended, by itself or by us.
// Only then does its process number still mean it.
func (s *Server) aliveLocked() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

func (s *Server) thawLocked() {
	if err := thawTree(s.cmd.Process.Pid); err != nil {
		s.tb.Errorf("servers: Thaw of %s: %v", s.Kind, err)
	}
	s.frozen = false
}

func (s *Server) killLocked() error {
	if s.aliveLocked() {
		if err := killTree(s.cmd.Process.Pid); err != nil {
			return fmt.Errorf("killing it: %w", err)
		}
	}
	<-s.exited
	s.cmd, s.frozen = nil, false
	if s.maker.sweep != nil {
		s.maker.sweep(s.dataDir())
	}
	return nil
}

// end is the test's cleanup.
func (s *Server) end() {
	if s.tb.Failed() {
		s.tb.Log(s.tail())
	}
	if err := s.remove(); err != nil {
		s.tb.Errorf("servers: %s: %v", s.Kind, err)
	}
}

// remove ends the server. Nothing in the folder is wanted any more, so it takes the quickest
// way out.
func (s *Server) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.cmd != nil {
		err = s.killLocked()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// tail returns the end of the log for a failure's text.
func (s *Server) tail() string {
	text := []byte(s.Log())
	if len(text) > logTail {
		text = text[len(text)-logTail:]
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	return fmt.Sprintf("the end of %s's log:\n%s", s.Kind, text)
}
