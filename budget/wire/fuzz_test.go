package wire_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// fuzzNow is when fuzzed values arrive; those of the vectors do too.
var fuzzNow = time.UnixMilli(1_700_000_000_000)

// seed adds the inputs of the vectors of all forms, since what one form allows is
// what another one must refuse, and what else is near the edges.
func seed(f *testing.F) {
	var all struct{ Parse []vector }
	load(f, "wire.json", &all)
	require.NotEmpty(f, all.Parse)
	for _, v := range all.Parse {
		f.Add(v.Input)
	}
	for _, s := range []string{
		"00", "0000000001", "10000000000", "-1", "\x00", "９", "00000000n", "9999999H", "2562047H", "153722867M", "9223372036854775807",
		"9223372036854775808", "9223372036854", "9223372036855", "1000000000000", "999999999999", "9999999999999;9999999999", "1700000000500;0",
		"1700000060501;500", "1700000060500;500", "1699999940000;500", "1000000000000000000 9223372036854775807", "t=1699999999.960", "1700000000000;",
	} {
		f.Add(s)
	}
}

// parse checks what holds for every form: no panic, an error or a value and never
// both, and what it says written again says no more.
func parse(t *testing.T, f wire.Form, s string) (wire.Peer, bool) {
	p, err := f.Parse(s, fuzzNow)
	if err != nil {
		var fe *wire.FormatError
		if !errors.As(err, &fe) || p != (wire.Peer{}) || len(err.Error()) > 300 {
			t.Fatalf("%v: %q: %+v, %v", f, s, p, err)
		}
		return p, false
	}
	if p.Left < 0 || p.Waited < 0 || p.Malformed != 0 || p.Limited != (p.Header != "") || !p.Limited && p.Left != 0 {
		t.Fatalf("%v: %q: %+v", f, s, p)
	}
	if value, ok := f.Format(p.Left, fuzzNow); ok && p.Limited {
		again, err := f.Parse(value, fuzzNow)
		if err != nil || again.Left > p.Left || again.Left <= 0 {
			t.Fatalf("%v: %q is %v, written again as %q is %v, %v", f, s, p.Left, value, again.Left, err)
		}
	}
	return p, true
}

// The plain twins: a regular expression, and integers that do not overflow.

func big10(s string) *big.Int {
	n, _ := new(big.Int).SetString(s, 10)
	return n
}

func times(n *big.Int, unit time.Duration) *big.Int {
	return new(big.Int).Mul(n, big.NewInt(int64(unit)))
}

// agree compares with the number of nanoseconds that the twin found; nil: malformed.
func agree(t *testing.T, f wire.Form, s string, p wire.Peer, ok bool, want *big.Int) {
	switch {
	case want == nil:
		if ok {
			t.Fatalf("%v: %q is taken for %+v", f, s, p)
		}
	case !ok:
		t.Fatalf("%v: %q is malformed, but %v", f, s, want)
	case !want.IsInt64():
		if p.Limited {
			t.Fatalf("%v: %q is %v, but more than a Duration holds", f, s, p.Left)
		}
	case !p.Limited || int64(p.Left) != want.Int64():
		t.Fatalf("%v: %q is %+v, not %v", f, s, p, want)
	}
}

func FuzzGRPC(f *testing.F) {
	seed(f)
	grammar := regexp.MustCompile(`\A([0-9]{1,8})([HMSmun])\z`)
	units := map[string]time.Duration{"H": time.Hour, "M": time.Minute, "S": time.Second, "m": ms, "u": time.Microsecond, "n": 1}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parse(t, wire.GRPC(), s)
		var want *big.Int
		if m := grammar.FindStringSubmatch(s); m != nil {
			want = times(big10(m[1]), units[m[2]])
		}
		agree(t, wire.GRPC(), s, p, ok, want)
		r, rok := wire.GRPC().ReverseZero().Parse(s, fuzzNow)
		if ok != (rok == nil) || r.Limited != (p.Limited && p.Left > 0) || r.Left != p.Left {
			t.Fatalf("%q: %+v, with zero reversed %+v, %v", s, p, r, rok)
		}
	})
}

func FuzzMillis(f *testing.F) {
	seed(f)
	grammar := regexp.MustCompile(`\A[0-9]{1,10}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		form := wire.Millis("X-Request-Deadline-Ms")
		p, ok := parse(t, form, s)
		var want *big.Int
		if grammar.MatchString(s) {
			want = times(big10(s), ms)
		}
		agree(t, form, s, p, ok, want)
		if left, err := wire.ParseMillis(s); left != p.Left || (err == nil) != ok {
			t.Fatalf("%q: %v and %v, %v", s, p.Left, left, err)
		}
		r, rok := form.ReverseZero().Parse(s, fuzzNow)
		if ok != (rok == nil) || r.Limited != (p.Limited && p.Left > 0) || r.Left != p.Left {
			t.Fatalf("%q: %+v, with zero reversed %+v, %v", s, p, r, rok)
		}
	})
}

func FuzzYARPC(f *testing.F) {
	seed(f)
	grammar := regexp.MustCompile(`\A[0-9]+\z`)
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parse(t, wire.YARPC(), s)
		var want *big.Int
		if grammar.MatchString(s) && big10(s).IsInt64() {
			want = times(big10(s), ms)
		}
		agree(t, wire.YARPC(), s, p, ok, want)
	})
}

// within reports the number in s when it is one from least to most.
func within(s string, least, most int64) (n int64, ok bool) {
	if !regexp.MustCompile(`\A[0-9]+\z`).MatchString(s) || !big10(s).IsInt64() {
		return 0, false
	}
	n = big10(s).Int64()
	return n, n >= least && n <= most
}

// merged is what an instant that our clock finds byClock away and what was told to
// be left come to.
func merged(byClock, told, skew time.Duration) (left time.Duration, skewed bool) {
	if apart := new(big.Int).Sub(big.NewInt(int64(byClock)), big.NewInt(int64(told))); apart.CmpAbs(big.NewInt(int64(skew))) > 0 {
		return told, true
	}
	return max(min(byClock, told), 0), false
}

func FuzzEpochMillis(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, s string) {
		form := wire.EpochMillis("X-Deadline", time.Minute)
		p, ok := parse(t, form, s)
		instant, told, both := strings.Cut(s, ";")
		at, valid := within(instant, 1e12, 1e13-1)
		left, err := wire.ParseMillis(told)
		if valid = valid && (!both || err == nil); valid != ok {
			t.Fatalf("%q: %+v, %v", s, p, ok)
		}
		if !ok {
			return
		}
		want, skewed := max(time.Duration(at-fuzzNow.UnixMilli()), 0), false
		if want = min(want, math.MaxInt64/ms) * ms; both {
			want, skewed = merged(max(time.Duration(at-fuzzNow.UnixMilli()), math.MinInt64/ms)*ms, left, time.Minute)
		}
		if p.Left != want || p.Skewed != skewed {
			t.Fatalf("%q: %+v, not %v, %v", s, p, want, skewed)
		}
	})
}

func FuzzEpochNanos(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, s string) {
		form := wire.EpochNanos("X-Deadline", time.Minute)
		p, ok := parse(t, form, s)
		first, second, _ := strings.Cut(s, " ")
		written, valid1 := within(first, 1e18, math.MaxInt64)
		at, valid2 := within(second, 1e18, math.MaxInt64)
		if valid := valid1 && valid2 && at >= written; valid != ok {
			t.Fatalf("%q: %+v, %v", s, p, ok)
		}
		if !ok {
			return
		}
		want, skewed := merged(time.Duration(at-fuzzNow.UnixNano()), time.Duration(at-written), time.Minute)
		if p.Left != want || p.Skewed != skewed || p.Left > time.Duration(at-written) {
			t.Fatalf("%q: %+v, not %v, %v", s, p, want, skewed)
		}
	})
}

func FuzzRequestStart(f *testing.F) {
	seed(f)
	grammar := regexp.MustCompile(`\A(?:t=)?([0-9]+)(?:\.([0-9]{3}))?\z`)
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parse(t, wire.RequestStart("X-Request-Start"), s)
		valid := false
		if m := grammar.FindStringSubmatch(s); m != nil {
			if at, in := within(m[1]+m[2], 1e12, 1e13-1); in {
				waited := time.Duration(fuzzNow.UnixMilli()-at) * ms
				if valid = waited >= 0 && waited <= 10*time.Minute; valid && p.Waited != waited {
					t.Fatalf("%q: %+v, not %v", s, p, waited)
				}
			}
		}
		if valid != ok || p.Limited {
			t.Fatalf("%q: %+v, %v", s, p, ok)
		}
	})
}

// FuzzFormat writes any time left at any instant in every form: what comes out is
// never 0, a sign or too long, and never says more.
func FuzzFormat(f *testing.F) {
	for _, d := range []int64{0, 1, -1, 999_999, 1_000_000, 1_999_999, 99_999_999, 100_000_000, int64(ceiling), math.MaxInt64, math.MinInt64} {
		f.Add(d, int64(0), fuzzNow.UnixNano())
		f.Add(d, int64(50*ms), int64(math.MaxInt64))
		f.Add(d, int64(1), int64(1e18))
	}
	grammars := map[string]*regexp.Regexp{
		"grpc-timeout": regexp.MustCompile(`\A[1-9][0-9]{0,7}[HMSmun]\z`), "Context-TTL-MS": regexp.MustCompile(`\A[1-9][0-9]{0,9}\z`),
		"A": regexp.MustCompile(`\A[1-9][0-9]{0,9}\z`), "B": regexp.MustCompile(`\A[1-9][0-9]{12};[1-9][0-9]{0,9}\z`), "C": regexp.MustCompile(`\A[1-9][0-9]{18} [1-9][0-9]{18}\z`),
	}
	f.Fuzz(func(t *testing.T, left, slush, at int64) {
		if slush < 0 || left < math.MinInt64+slush {
			return
		}
		d, now := time.Duration(left-slush), time.Unix(0, at)
		for _, form := range []wire.Form{wire.GRPC(), wire.YARPC(), wire.Millis("A"), wire.EpochMillis("B", time.Minute), wire.EpochNanos("C", time.Minute)} {
			value, ok := form.Format(d, now)
			if !ok {
				if value != "" || d >= ms && at >= 1e18 && at < math.MaxInt64-int64(time.Second) {
					t.Fatalf("%v: %d at %d: %q, not ok", form, d, at, value)
				}
				continue
			}
			if d < ms || !grammars[form.Header()].MatchString(value) {
				t.Fatalf("%v: %d at %d: %q", form, d, at, value)
			}
			p, err := form.Parse(value, now)
			if err != nil || !p.Limited || p.Left > d || p.Left <= 0 || p.Skewed {
				t.Fatalf("%v: %d at %d: %q is read as %+v, %v", form, d, at, value, p, err)
			}
		}
	})
}

// FuzzRead merges any values of three headers under any local maximum: the deadline
// that comes of it is never later than the maximum, and never later than any valid
// value asks for, counted from when a proxy took the request in.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"5S", "250m", "0n", "99999999H", "x", ""} {
		for _, m := range []string{"200", "0", "99999999999", "-1"} {
			f.Add(s, m, "1700000000500;500", "t=1699999999960", int64(2*time.Second))
			f.Add(s, m, "1700000000500", "t=1700000005000", int64(time.Hour))
		}
	}
	forms := []wire.Form{wire.GRPC(), wire.Millis("X-Ms"), wire.EpochMillis("X-Deadline", time.Minute), wire.RequestStart("X-Request-Start")}
	f.Fuzz(func(t *testing.T, a, b, c, d string, most int64) {
		if most <= 0 {
			return
		}
		values := map[string][]string{"grpc-timeout": {a, b}, "X-Ms": {b, a}, "X-Deadline": {c}, "X-Request-Start": {d}}
		peer, err := wire.Read(func(name string) []string { return values[name] }, fuzzNow, forms...)
		asked, malformed, bad := max(time.Duration(most)-peer.Waited, 0), 0, false
		for _, form := range forms {
			for _, value := range values[form.Header()] {
				p, err := form.Parse(value, fuzzNow)
				switch {
				case err != nil:
					malformed++
					bad = bad || form.Header() != "X-Request-Start"
				case p.Limited && form.Header() != "X-Deadline":
					asked = min(asked, max(p.Left-peer.Waited, 0))
				case p.Limited:
					asked = min(asked, p.Left)
					_, told, _ := strings.Cut(value, ";")
					if d, err := wire.ParseMillis(told); err == nil {
						asked = min(asked, max(d-peer.Waited, 0))
					}
				}
			}
		}
		if peer.Malformed != malformed || (err != nil) != bad {
			t.Fatalf("%q: %d malformed, not %d; %v", values, peer.Malformed, malformed, err)
		}
		started := time.Now()
		ctx, cancel, err := budget.Enter(context.Background(), peer.Limit(budget.Within(time.Duration(most))))
		defer cancel()
		if err != nil {
			if k := budget.KindOf(err); k != budget.ExpiredOnArrival || asked > 0 && !strings.Contains(c, ";") {
				t.Fatalf("%q: %v, but %v was asked for and %v waited", values, err, asked, peer.Waited)
			}
			return
		}
		deadline, ok := ctx.Deadline()
		// Entering itself takes time, so the bound is taken after it.
		if left := time.Until(deadline); !ok || left > asked || deadline.Before(started) {
			t.Fatalf("%q under %v: %v left, but %v was asked for", values, time.Duration(most), left, asked)
		}
	})
}
