package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/curfew-go/curfew/internal/repo"
)

var _ = register(Suite{
	Name: "incident",
	About: "examples/checkout, built and run: checkouts over five real HTTP services while the warehouse is slow. " +
		"The figures are those that the program reports, in the time of the incident, of which it says how they are measured.",
	Cases: incidentCases,
})

// A checkout is what the program says of itself with -json. Fields are pointers so that one
// that it does not report is found out.
type checkout struct {
	Before, Curfew *checkoutFigures
	Bounds         []struct {
		Name string `json:"name"`
		Met  bool   `json:"met"`
	} `json:"bounds"`
}

type checkoutFigures struct {
	Users        *float64 `json:"users"`
	Mean         *float64 `json:"warehouse_calls_mean"`
	Worst        *float64 `json:"warehouse_calls_worst"`
	WorstTotal   *float64 `json:"worst_total_seconds"`
	Multiplier   *float64 `json:"load_multiplier"`
	Availability *float64 `json:"availability"`
	SecondHalf   *float64 `json:"availability_second_half"`
	P50          *float64 `json:"p50_seconds"`
	P99          *float64 `json:"p99_seconds"`
	Wasted       *float64 `json:"wasted_share"`
	Late         *float64 `json:"generator_late_p99_seconds"`
}

func (f *checkoutFigures) metrics() ([]Metric, error) {
	if f == nil {
		return nil, errors.New("bench: checkout does not report both modes")
	}
	var ms []Metric
	for _, m := range []struct {
		name  string
		value *float64
		times float64
	}{
		{"calls-worst", f.Worst, 1}, {"calls-mean", f.Mean, 1}, {"load-multiplier", f.Multiplier, 1}, {"availability-%", f.Availability, 100},
		{"second-half-%", f.SecondHalf, 100}, {"p50-s", f.P50, 1}, {"p99-s", f.P99, 1}, {"last-work-s", f.WorstTotal, 1}, {"wasted-%", f.Wasted, 100},
		{"checkouts", f.Users, 1}, {"generator-late-s", f.Late, 1},
	} {
		if m.value == nil {
			return nil, fmt.Errorf("bench: checkout does not report %s", m.name)
		}
		ms = append(ms, Metric{m.name, m.times * *m.value})
	}
	return ms, nil
}

// readCheckout returns the metrics of both modes. Of bounds there are more than those whose
// figures are here: bounds-missed counts those of all.
func readCheckout(text []byte) (before, curfew []Metric, err error) {
	var c checkout
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, nil, fmt.Errorf("bench: what checkout says: %w", err)
	}
	if len(c.Bounds) == 0 {
		return nil, nil, errors.New("bench: checkout does not report bounds")
	}
	missed := 0.0
	for _, b := range c.Bounds {
		if !b.Met {
			missed++
		}
	}
	if before, err = c.Before.metrics(); err != nil {
		return nil, nil, err
	}
	if curfew, err = c.Curfew.metrics(); err != nil {
		return nil, nil, err
	}
	return before, append(curfew, Metric{"bounds-missed", missed}), nil
}

// runCheckout builds the program, which belongs to another module, and runs it.
func runCheckout(scale int) ([]byte, error) {
	root, err := repo.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "curfewbench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "checkout")
	build := exec.Command("go", "build", "-o", program, "./examples/checkout")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("bench: building checkout: %w\n%s", err, out)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, "-json", "-scale", fmt.Sprint(scale), "-html", filepath.Join(dir, "page.html"))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("bench: running checkout: %w\n%s", err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

func incidentCases(s Scale) []Case {
	if s.Tiny {
		return nil
	}
	scale := pick(s, 10, 20)
	run := func() (before, curfew []Metric) {
		text, err := runCheckout(scale)
		must(err)
		before, curfew, err = readCheckout(text)
		must(err)
		return before, curfew
	}
	// A run has the figures of both systems, so the second takes those of the first's, once.
	// Where it is alone it makes a run of its own.
	var left []Metric
	system := func(name string, sample func() []Metric) System {
		return System{name, func() Work {
			if _, err := exec.LookPath("go"); err != nil {
				return Work{Skip: "it is built with the go command, which is not here"}
			}
			if _, err := repo.Root(); err != nil {
				return Work{Skip: "examples/checkout is not here: " + err.Error()}
			}
			return Work{Sample: sample}
		}}
	}
	return []Case{{
		Name: "checkout", Parent: "none", Main: "availability-%", Alone: true, Rounds: 1, Takes: pick(s, 60*time.Second, 26*time.Second),
		Systems: []System{
			system("curfew", func() (curfew []Metric) {
				left, curfew = run()
				return curfew
			}),
			system("before", func() []Metric {
				before := left
				if left = nil; before == nil {
					before, _ = run()
				}
				return before
			}),
		},
	}}
}
