package wire_test

import (
	"context"
	"errors"
	"testing"
	"time"
	"net/http"
	"math"
	"runtime"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

func TestZZRead(t *testing.T) {
	try := func(name string, f func()) { defer func() { if r := recover(); r != nil { t.Log(name, "panic:", r) } }(); f() }
	h := http.Header{"Grpc-Timeout": {"5S"}}
	try("zero form", func() { p, err := wire.Read(h.Values, time.Now(), wire.Form{}); t.Log("zero form:", p, err) })
	try("zero form string", func() { t.Log(wire.Form{}.String(), wire.Form{}.Header()) })
	try("nil values", func() { wire.Read(nil, time.Now(), wire.GRPC()) })
	try("no forms", func() { t.Log(wire.Read(h.Values, time.Now())) })
	// zero time
	for _, f := range []wire.Form{wire.EpochMillis("a", math.MaxInt64), wire.EpochNanos("a", math.MaxInt64), wire.RequestStart("a")} {
		for _, now := range []time.Time{{}, time.Unix(1<<62, 0), time.Unix(-1<<62, 0)} {
			for _, v := range []string{"1700000000000", "1700000000000;500", "1700000000000000000 1700000000500000000"} {
				p, err := f.Parse(v, now)
				s, ok := f.Format(time.Hour, now)
				t.Log(f, now.Year(), v, p, err, s, ok)
			}
		}
	}
	s := wire.Slush{Share: math.NaN(), Floor: -5, Cap: -7}
	t.Log(s.Of(time.Second), wire.Slush{Share: math.Inf(1)}.Of(0), wire.Slush{Share: math.Inf(1)}.Of(1), wire.Slush{Share: -1, Cap: 5}.Of(math.MinInt64), wire.Slush{Share: 0.05}.Of(math.MaxInt64), wire.Slush{Share: 0.05, Cap: 50 * time.Millisecond}.Of(10*time.Second), wire.Slush{Floor: time.Second, Cap: time.Millisecond}.Of(1))
	// two dialects equal
	p, err := wire.Read(http.Header{"Grpc-Timeout": {"300m", "1x"}, "X": {"300", "", "0"}}.Values, time.Now(), wire.GRPC(), wire.Millis("X"))
	t.Log(p, err)
	l := p.Limit(budget.Inherited())
	_, c, err := budget.Enter(context.Background(), l)
	c()
	t.Log(l, err)
	// peer waited with Inherited and Until
	p = wire.Peer{Waited: time.Second}
	ctx, c, err := budget.Enter(context.Background(), p.Limit(budget.Until(time.Now().Add(500*time.Millisecond))))
	c()
	t.Log(budget.Remaining(ctx))
}

func TestZZConsumer(t *testing.T) {
	inQueue(t, func(t *testing.T) {
		c := consumer()
		// lower-case header
		m := stamped(t, time.Second)
		t.Log(m)
		time.Sleep(time.Hour)
		// deadline of Handle's context with the zero limit: poison
		c.Limit = budget.Limit{}
		c.Work = func(ctx context.Context, m *message, check func(string, time.Duration) error) error { <-ctx.Done(); return context.Cause(ctx) }
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		t.Log(c.Handle(ctx, &message{}), c.Stats())
		// no limit anywhere
		t.Log(c.Handle(context.Background(), &message{}), c.Stats())
		// foreign-cause cancel
		fc, fcancel := context.WithCancelCause(context.Background())
		c.Limit = budget.Within(time.Minute)
		c.Work = func(ctx context.Context, m *message, check func(string, time.Duration) error) error {
			fcancel(errors.New("shutting down"))
			time.Sleep(time.Millisecond)
			err := check("send", time.Second)
			t.Logf("%T %v", err, err)
			return err
		}
		t.Log(c.Handle(fc, &message{}), c.Stats())
		// Goexit
		done := make(chan struct{})
		c.Work = func(ctx context.Context, m *message, check func(string, time.Duration) error) error { runtime.Goexit(); return nil }
		go func() { defer close(done); c.Handle(context.Background(), &message{}) }()
		<-done
		t.Log(c.Stats())
		// Work outlives expiry and returns nil
	})
}
