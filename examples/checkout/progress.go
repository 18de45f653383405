package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress tells a person how far a run is: a bar on a terminal, a line now and then elsewhere.
type progress struct {
	out io.Writer
	bar bool
}

func newProgress(out *os.File) *progress {
	return &progress{out: out, bar: term.IsTerminal(int(out.Fd()))}
}

// follow shows the run of one mode until stop is called. The total is the phases' length: the time
// that leftovers take to drain cannot be known, so the bar waits at its end for it.
func (p *progress) follow(name string, plan plan, c *crowd, m *meter) (stop func()) {
	every, show := p.lines(name, plan)
	if p.bar {
		every, show = p.onTerminal(name, plan)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show(c, m)
			case <-done:
				show(c, m)
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
		if p.bar {
			fmt.Fprintln(p.out)
		}
	}
}

func (p *progress) lines(name string, plan plan) (every time.Duration, show func(*crowd, *meter)) {
	return plan.pace.real(20 * time.Second), func(c *crowd, m *meter) {
		fmt.Fprintf(p.out, "%-7s %s\n", name, status(plan, c, m))
	}
}

func (p *progress) onTerminal(name string, plan plan) (every time.Duration, show func(*crowd, *meter)) {
	bar := progressbar.NewOptions64(int64(plan.length()),
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetTheme(progressbar.ThemeUnicode),
	)
	return 200 * time.Millisecond, func(c *crowd, m *meter) {
		bar.Describe(fmt.Sprintf("%-7s %s", name, status(plan, c, m)))
		bar.Set64(int64(min(m.clock.now(), plan.length())))
	}
}

func status(plan plan, c *crowd, m *meter) string {
	now := m.clock.now()
	phase := "healthy "
	switch {
	case now >= plan.length():
		phase = "draining"
	case now >= plan.healthy:
		phase = "degraded"
	}
	return fmt.Sprintf("%s %4ds  %5d checkouts, %5d bought  %6d warehouse calls",
		phase, now/time.Second, c.ended.Load(), c.bought.Load(), m.total.Load())
}
