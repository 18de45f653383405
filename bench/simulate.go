package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/curfew-go/curfew/bench/fleet"
)

// Simulated time is part of package testing and belongs to a test, which ends its
// process. So each simulation is this program once more: its name is in the environment,
// what it is to simulate comes in as JSON and what came of it goes out as JSON.
const simulateEnv = "CURFEWBENCH_SIMULATE"

var simulations = map[string]func(t *testing.T, in []byte) (any, error){}

// simulation names f, which is run with simulated time for each call of what is returned.
func simulation[In, Out any](name string, f func(t *testing.T, in In) Out) func(In) Out {
	simulations[name] = func(t *testing.T, raw []byte) (any, error) {
		var in In
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, err
		}
		return f(t, in), nil
	}
	return func(in In) (out Out) {
		must(elsewhere(name, in, &out))
		return out
	}
}

// elsewhere runs a simulation in a process of its own.
func elsewhere(name string, in, out any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	// A program with the race detector waits a second before it ends, for reports of others.
	cmd.Env = append(os.Environ(), simulateEnv+"="+name, strings.TrimSpace("GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := json.NewEncoder(stdin).Encode(in); err != nil {
		return err
	}
	if err := stdin.Close(); err != nil {
		return err
	}
	decoded := json.NewDecoder(stdout).Decode(out)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("bench: simulation %s: %w", name, err)
	}
	return decoded
}

// Simulate must be called first by a program that runs suites. In the process that a
// suite has started for a simulation it runs that and does not return.
func Simulate() {
	name := os.Getenv(simulateEnv)
	if name == "" {
		return
	}
	answers := os.Stdout // fleet.Main takes it away
	fleet.Main(func(t *testing.T) {
		f := simulations[name]
		if f == nil {
			t.Fatalf("bench: there is no simulation %q", name)
		}
		raw, err := io.ReadAll(os.Stdin)
		if err != nil {
			t.Fatal(err)
		}
		out, err := f(t, raw)
		if err == nil {
			err = json.NewEncoder(answers).Encode(out)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
