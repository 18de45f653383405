package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
	"github.com/curfew-go/curfew/retrybudget/pooltest"
)

// Kinds are the budgets that can be simulated, those of a process first.
//
// Bucket is a token bucket of five that starts full, with a tenth for each success,
// as in Marc Brooker's simulator. Finagle allows a fifth of the successes of ten
// seconds and ten a second. GRPC is the throttle of gRFC A6 with ten tokens and a
// tenth for each success. AWS is the quota of the AWS SDKs' standard mode since 2026:
// 500, of which a retry costs 14 and gives them back if it succeeds. One is what
// nobody can have: one retrybudget.Budget that all processes share at no cost.
var Kinds = []string{"none", "fixed", "bucket", "finagle", "grpc", "aws", "curfew", "one"}

// A member is a process.
type member interface {
	success() // of a call at its first attempt
	retry(p retrybudget.Policy, f func(context.Context) error) error
}

// members returns all of them, and what lets them leave.
func (c Config) members(storeCalls *atomic.Int64) (all []member, leave func()) {
	var make func() member
	var budgets []*retrybudget.Budget
	own := func(b *retrybudget.Budget) member {
		budgets = append(budgets, b)
		return budgeted{b}
	}
	switch c.Kind {
	case "none":
		make = func() member { return &counted{rule: never{}} }
	case "fixed":
		make = func() member { return budgeted{retrybudget.Unlimited()} }
	case "bucket":
		make = func() member { return &counted{rule: &bucket{have: 50, most: 50, deposit: 1, cost: 10}} }
	case "finagle":
		make = func() member { return &counted{rule: newFinagle()} }
	case "grpc":
		make = func() member { return &counted{rule: &throttle{tokens: 10_000}} }
	case "aws":
		make = func() member { return &counted{rule: &bucket{have: 500, most: 500, deposit: 1, cost: 14, refund: 14}} }
	case "curfew":
		pool := &remote{Pool: &pooltest.Memory{}, store: c.Store, began: time.Now(), calls: storeCalls}
		make = func() member { return own(retrybudget.New("target", retrybudget.Config{Pool: pool})) }
	case "one":
		one := own(retrybudget.New("target", retrybudget.Config{}))
		make = func() member { return one }
	default:
		panic("fleet: unknown Kind " + c.Kind)
	}
	for range c.Members {
		all = append(all, make())
	}
	return all, func() {
		var leaving sync.WaitGroup
		for _, b := range budgets {
			leaving.Go(func() { _ = b.Close(context.Background()) })
		}
		leaving.Wait()
	}
}

// budgeted is a member with a Budget.
type budgeted struct{ b *retrybudget.Budget }

func (m budgeted) success() { m.b.Success() }

func (m budgeted) retry(p retrybudget.Policy, f func(context.Context) error) error {
	return retrybudget.Do(context.Background(), m.b, p, f)
}

// A rule is the budget of another system. Its methods are called one at a time.
type rule interface {
	success(retried bool)  // the call went well, at its first attempt or a later one
	failure() (retry bool) // an attempt failed and there may be another one
}

// counted is a member with a rule.
type counted struct {
	mu   sync.Mutex
	rule rule // under mu
}

func (m *counted) success() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rule.success(false)
}

func (m *counted) failure() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rule.failure()
}

func (m *counted) retry(p retrybudget.Policy, f func(context.Context) error) error {
	wait := p.Backoff.Base
	for n := 1; ; n++ {
		err := f(context.Background())
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.rule.success(n > 1)
			return nil
		}
		if n == p.Attempts || !m.failure() {
			return err
		}
		time.Sleep(wait)
		wait = min(2*wait, p.Backoff.Max)
	}
}

type never struct{}

func (never) success(bool)  {}
func (never) failure() bool { return false }

// A bucket holds tokens that successes add to, and retries take from.
type bucket struct{ have, most, deposit, cost, refund int }

func (b *bucket) success(retried bool) {
	if retried && b.refund > 0 {
		b.have = min(b.have+b.refund, b.most)
		return
	}
	b.have = min(b.have+b.deposit, b.most)
}

func (b *bucket) failure() bool {
	if b.have < b.cost {
		return false
	}
	b.have -= b.cost
	return true
}

// throttle is that of gRFC A6, in thousandths.
type throttle struct{ tokens int }

func (t *throttle) success(bool) { t.tokens = min(t.tokens+100, 10_000) }

func (t *throttle) failure() bool {
	t.tokens = max(t.tokens-1000, 0)
	return t.tokens > 5000
}

// finagle is the RetryBudget of twitter/finagle with its defaults: a window of ten
// slices of a second, to which a success adds 1000 and from which a retry takes 5000,
// and a reserve of ten retries a second.
type finagle struct {
	slices [10]int
	last   int64 // second
	began  time.Time
}

func newFinagle() *finagle { return &finagle{began: time.Now()} }

func (f *finagle) slice() *int {
	now := int64(time.Since(f.began) / time.Second)
	for ; f.last < now; f.last++ {
		f.slices[(f.last+1)%10] = 0
	}
	return &f.slices[now%10]
}

func (f *finagle) success(bool) { *f.slice() += 1000 }

func (f *finagle) failure() bool {
	const cost, reserve = 5000, 10 * 10 * 5000
	slice := f.slice()
	sum := reserve
	for _, n := range f.slices {
		sum += n
	}
	if sum < cost {
		return false
	}
	*slice -= cost
	return true
}
