package curfewredis_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/stress"
)

// procs is a fleet of real processes.
type procs struct {
	t       *testing.T
	order   string // what makes a process a member
	members []*member
	heard   sync.WaitGroup

	mu   sync.Mutex
	past [3]past // of each target; under mu, as lent
	lent int
}

type past struct{ successes, retries []span }

type member struct {
	cmd  *exec.Cmd
	end  func() error  // lets it leave
	gone chan struct{} // closed once it has ended
}

func (f *procs) start() *member {
	self, err := os.Executable()
	require.NoError(f.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberEnv+"="+f.order)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(f.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, cmd.Start())
	m := &member{cmd, in.Close, make(chan struct{})}
	f.heard.Go(func() {
		defer close(m.gone)
		if err := f.hear(out); !assert.NoError(f.t, err) {
			_ = cmd.Process.Kill() // nobody reads what it says, so that it would not get to its end
		}
		_ = cmd.Wait()
	})
	return m
}

// end lets the members leave. One that does not is asked for its stacks, and killed.
func (f *procs) end() {
	for _, m := range f.members {
		assert.NoError(f.t, m.end())
	}
	late := time.After(30 * time.Second)
	for i, m := range f.members {
		select {
		case <-m.gone:
		case <-late:
			f.t.Errorf("member %d, process %d, has not left; its stacks are on the standard error", i, m.cmd.Process.Pid)
			_ = m.cmd.Process.Signal(syscall.SIGQUIT)
			time.Sleep(time.Second)
			f.t.FailNow() // which kills it
		}
	}
	f.heard.Wait()
}

// killAll ends what is left of a test that failed, stopped members too. Before that
// the network cannot end, whose connections they keep open.
func (f *procs) killAll() {
	for _, m := range f.members {
		_ = m.cmd.Process.Kill()
	}
	f.heard.Wait()
}

// kill replaces members by new ones, without letting them leave.
func (f *procs) kill(n int) {
	for range n {
		i := rand.IntN(len(f.members))
		assert.NoError(f.t, f.members[i].cmd.Process.Kill())
		f.members[i] = f.start()
	}
}

// stop lets n of the members sleep for d.
func (f *procs) stop(n int, d time.Duration) {
	some := rand.Perm(len(f.members))[:n]
	for _, i := range some {
		assert.NoError(f.t, f.members[i].cmd.Process.Signal(syscall.SIGSTOP))
	}
	time.Sleep(d)
	for _, i := range some {
		assert.NoError(f.t, f.members[i].cmd.Process.Signal(syscall.SIGCONT))
	}
}

func (f *procs) lentSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lent
}

// check holds every window (a, b) against
//
//	retries ≤ ratio × successes from a − W to b + floor × (b − a) + burst
//
// A retry is in it when it surely was, and a success when it may have been: each
// was somewhere between two instants, a hundredth of a second apart or much less,
// and more for a member that was stopped between them.
func (p *past) check(t *testing.T, ppm, floor, burst int64) {
	var begins, ends []int64
	for _, s := range p.successes {
		begins, ends = append(begins, s.from), append(ends, s.to)
	}
	slices.Sort(begins)
	slices.Sort(ends)
	slices.SortFunc(p.retries, func(a, b span) int { return int(a.to - b.to) })
	fullest, over := 0.0, 0
	for _, first := range p.retries {
		a := first.from
		gone, _ := slices.BinarySearch(ends, a-int64(fleetWindow)+1)
		retries, earned := int64(0), 0
		for _, r := range p.retries {
			if r.from < a {
				continue
			}
			retries++
			for earned < len(begins) && begins[earned] <= r.to {
				earned++
			}
			most := ppm*int64(earned-gone) + floor*(r.to-a)/1000 + burst*1e6
			fullest = max(fullest, float64(retries*1e6)/float64(most))
			if retries*1e6 > most {
				if over++; over < 5 {
					t.Errorf("in %v from %d on: %d retries, and %.2f allowed", time.Duration(r.to-a), a, retries, float64(most)/1e6)
				}
			}
		}
	}
	t.Logf("%d successes, %d retries; the fullest window was %.1f%% full", len(p.successes), len(p.retries), 100*fullest)
	assert.Zero(t, over, "windows that are overspent")
	assert.NotEmpty(t, p.retries)
}

// A fleet of processes shares a Redis, and everything that may happen to either
// happens. No window is overspent, and the fleet is one again each time.
func TestNoWindowOfAFleetOfProcessesIsOverspentWhateverHappens(t *testing.T) {
	t.Parallel()
	members, rounds := 8, 1
	if stress.Level() > 0 {
		members, rounds = 32, stress.Rounds(1)
	}
	s := startTwo(t)
	f := &procs{t: t, order: s.net.addr + " " + s.password}
	t.Cleanup(f.killAll) // before the network ends
	for range members {
		f.members = append(f.members, f.start())
	}
	const beat = 500 * time.Millisecond
	troubles := []struct {
		name string
		f    func()
	}{
		{"members killed", func() { f.kill(members / 3); time.Sleep(beat) }},
		{"members stopped", func() { f.stop(members/2, beat) }},
		{"Redis stopped", func() { s.main.Freeze(); time.Sleep(beat); s.main.Thaw() }},
		{"black hole", func() { s.net.set(swallow); time.Sleep(beat); s.net.set(pass) }},
		{"replies lost", func() { s.net.set(loseReplies); time.Sleep(beat); s.net.set(pass) }},
		{"replies twice", func() { s.net.set(repeatReplies); time.Sleep(beat); s.net.set(pass) }},
		{"requests twice", func() { s.net.set(repeatRequests); time.Sleep(beat); s.net.set(pass) }},
		{"requests late", func() { s.net.set(delayRequests); time.Sleep(beat); s.net.set(pass) }},
		{"emptied", func() { require.NoError(t, s.admin(s.main).FlushAll(t.Context()).Err()) }},
		{"emptied, members killed", func() { f.kill(members / 3); require.NoError(t, s.admin(s.main).FlushAll(t.Context()).Err()) }},
		{"restarted", func() { s.main.Kill(); time.Sleep(beat / 2); s.main.Restart() }},
		{"failover", func() { s.failOver(s.somebodyWrites) }},
	}
	time.Sleep(2 * beat)
	for round := range rounds {
		for _, i := range rand.Perm(len(troubles)) {
			before := f.lentSoFar()
			began := time.Now()
			troubles[i].f()
			during := f.lentSoFar()
			took := time.Since(began)
			back := soon(t, troubles[i].name+": the fleet lends again", func() bool { return f.lentSoFar() > during })
			require.False(t, t.Failed())
			t.Logf("%-24s %3d lent in %5v, again after %v", troubles[i].name, during-before, took.Round(time.Millisecond), back.Round(time.Millisecond))
			if rounds > 1 { // time to fill what the next one may break
				time.Sleep(rand.N(4 * beat))
			}
			if troubles[i].name == "failover" && round < rounds-1 {
				s.back()
			}
		}
	}
	f.end()
	for i, target := range fleetTargets {
		t.Run(target.name, func(t *testing.T) { f.past[i].check(t, target.ppm, target.floor, target.burst) })
	}
}
