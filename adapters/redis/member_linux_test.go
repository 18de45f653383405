package curfewredis_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	curfewredis "github.com/curfew-go/curfew/adapters/redis"
	"github.com/curfew-go/curfew/retrybudget"
)

// Each member has a budget for each of these targets. Where there is both credit
// and a floor, what is wrong with one can hide in what is unused of the other.
var fleetTargets = []struct {
	name              string
	ppm, floor, burst int64 // millionths of a retry for a success; retries a second; retries
	ratio, rate       float64
	most              int
}{
	{"both", 100_000, 10, 30, 0.1, 10, 30},
	{"floor", 0, 10, 30, -1, 10, 30},
	{"credit", 100_000, 0, 0, 0.1, -1, -1},
}

const (
	fleetWindow = 3 * time.Second
	moodTime    = 600 * time.Millisecond
)

// moods are what all members do together, in turns: earn, be quiet, want all there
// is, or each its own.
const moods = "emmqwmmeqqqqqqwwmmm"

// memberEnv makes a process of this test binary a member: "address password".
const memberEnv = "CURFEW_FLEET_MEMBER"

func TestMain(m *testing.M) {
	if order := os.Getenv(memberEnv); order != "" {
		address, password, _ := strings.Cut(order, " ")
		if err := beMember(address, password); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// instant is nanoseconds of a clock that all processes of a machine share and that
// goes on while they are stopped.
func instant() int64 {
	const monotonic = 1
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err)
	}
	return t.Nano()
}

// beMember earns and spends until its standard input ends. It says on its standard
// output what it did for which target and between which two instants that was: "s 0
// from to" for a success, "r 0 from to" for what the budget allowed, and "l 0 leased
// 0" for what it was lent of all of them so far.
func beMember(address, password string) error {
	client := redis.NewClient(&redis.Options{
		Addr: address, Username: "fleet", Password: password, ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: 250 * time.Millisecond, DialerRetries: 1, PoolSize: 2,
	})
	defer client.Close()
	pool, err := curfewredis.New(client, curfewredis.Config{})
	if err != nil {
		return err
	}
	all := make([]teller, len(fleetTargets))
	for i, target := range fleetTargets {
		all[i] = teller{i, retrybudget.New(target.name, retrybudget.Config{
			Pool: pool, Ratio: target.ratio, PerSecond: target.rate, Burst: target.most, Window: fleetWindow,
		})}
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	own := []int{0, 5, 50, 100}[rand.IntN(4)] // percent of its calls that fail in a mood of its own
	said := uint64(0)
	for {
		select {
		case <-over:
			var first error
			for _, b := range all {
				first = cmp.Or(first, b.Close(context.Background()))
			}
			return first
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
		b := all[rand.IntN(len(all))]
		switch failing := own; moods[instant()/int64(moodTime)%int64(len(moods))] {
		case 'e':
			b.call(0)
		case 'w':
			b.call(100)
		case 'q':
			// Little, so that what is lent lies there until its end.
			if b.Stats().Floor == 0 && rand.IntN(4) == 0 {
				b.take()
			}
		default:
			b.call(failing)
		}
		leased := uint64(0)
		for _, b := range all {
			leased += b.Stats().Fleet.Leased
		}
		if leased != said {
			said = leased
			fmt.Printf("l 0 %d 0\n", leased)
		}
	}
}

// A teller is a member's budget for one target.
type teller struct {
	target int
	*retrybudget.Budget
}

func (b teller) tell(what string, from int64) {
	fmt.Printf("%s %d %d %d\n", what, b.target, from, instant())
}

func (b teller) take() {
	from := instant()
	if b.TryTake() {
		b.tell("r", from)
	}
}

// call makes a call of which failing percent of the attempts fail, by Do or by hand.
func (b teller) call(failing int) {
	if rand.IntN(2) == 0 {
		from := instant()
		if rand.IntN(100) < failing {
			b.take()
			return
		}
		b.Success()
		b.tell("s", from)
		return
	}
	var ended int64 // the last attempt
	err := retrybudget.Do(context.Background(), b.Budget, idempotent(4*time.Millisecond), func(context.Context) error {
		if ended != 0 {
			b.tell("r", ended)
		}
		ended = instant()
		if rand.IntN(100) < failing {
			return errDown
		}
		return nil
	})
	if err == nil {
		b.tell("s", ended)
	}
}

// A span is between which two instants something was.
type span struct{ from, to int64 }

// hear reads what a member says, until its end. A line that a kill has cut is
// none.
func (f *procs) hear(out io.Reader) error {
	leased := 0
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var what string
		var target int
		var s span
		if _, err := fmt.Sscan(line, &what, &target, &s.from, &s.to); err != nil {
			return err
		}
		f.mu.Lock()
		past := &f.past[target]
		switch what {
		case "s":
			past.successes = append(past.successes, s)
		case "r":
			past.retries = append(past.retries, s)
		case "l":
			f.lent += int(s.from) - leased
			leased = int(s.from)
		default:
			err = fmt.Errorf("a member said %q", line)
		}
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
