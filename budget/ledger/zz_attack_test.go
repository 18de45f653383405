package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"
	"math"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/ledger"
)

func TestZZLedger(t *testing.T) {
	for _, n := range []string{`{"password":"s3cret"}`, "ann:s3cret@h", "postgres://ann:s3cret/h", "a\nb", "\xff\xfe", "h;Password:s3cret", "a?x", "a#@s3cret", "@", "ann:s3%40cret%40h", "x://y://u:p@h", "javascript:u:s3@h", "Bearer s3cret"} {
		_, l := ledger.New(context.Background(), n)
		l.Call(n, math.MaxInt64).Done(errors.New("x"))
		t.Logf("%q: %s | %s", n, l, l.ServerTiming())
	}
	_, l := ledger.New(context.Background(), "h")
	l.Stage(ledger.Queue, -time.Second)
	l.Stage(ledger.Work, math.MaxInt64); l.Stage(ledger.Work, math.MaxInt64)
	l.Stage(200, 1)
	c := l.Call("a", 1)
	c.Stage(ledger.Queue, -time.Second); c.Stage(ledger.Queue, 2*time.Second)
	c.Done(nil); c.Done(errors.New("x"))
	l.Close((*budget.Cause)(nil))
	t.Log(l)
	l2 := (*ledger.Ledger)(nil)
	t.Log(l2, l2.Report(), l2.LogValue(), l2.ServerTiming())
	func() { defer func() { t.Log(recover()) }(); ledger.From(nil) }()
	func() { defer func() { t.Log(recover()) }(); ledger.New(nil, "x") }()
}
