package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/curfew-go/curfew/examples/internal/database"
	"github.com/curfew-go/curfew/scope"
)

// serviceEnv makes a process the service; it holds an order.
const serviceEnv = "CURFEW_EXAMPLE_EXPORT_SERVICE"

// An order is what the service is to work on.
type order struct {
	Place database.Place
	Dir   string
	Every time.Duration
	Pace  time.Duration
	Hold  string // the step at which to stand still, for who wants to kill it there; may be empty
}

// beService serves until its standard input ends. It writes its URL, and then where it stands still.
func beService(ctx context.Context, text string) (err error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	db, err := o.Place.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w := &worker{
		jobs: jobs{db}, files: files{o.Dir}, every: o.Every, pace: o.Pace,
		step: func(name string) {
			if name == o.Hold {
				fmt.Println(name)
				select {} // until it is killed
			}
		},
	}
	if err := errors.Join(w.jobs.setUp(ctx), w.files.setUp()); err != nil {
		return err
	}
	s := &service{root: scope.NewRoot("export"), worker: w}
	url, shut, err := s.open(ctx)
	if err != nil {
		return err
	}
	fmt.Println(url)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has enough, or is gone
	return shut()
}

// A process is a service that may be killed.
type process struct {
	url   string
	cmd   *exec.Cmd
	input io.Closer
	lines *bufio.Reader
}

// start starts this program once more, as the service.
func (o order) start(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), serviceEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewReader(output)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if p.url, err = p.line(); err != nil {
		p.kill()
		return nil, fmt.Errorf("the service did not start: %w", err)
	}
	return p, nil
}

// line waits for the next line that the process writes.
func (p *process) line() (string, error) {
	text, err := p.lines.ReadString('\n')
	return strings.TrimSpace(text), err
}

// kill ends the process as a crash does: it is asked for nothing.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // or it has ended
	_ = p.cmd.Wait()         // says only that it was killed
}

// stop lets the process end in order.
func (p *process) stop() error {
	return errors.Join(p.input.Close(), p.cmd.Wait())
}
