package pooltest

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

func membersAreBounded(_ *testing.T, b *bench) {
	for i := range b.MaxMembers - 1 { // one was there first
		b.donate(name(i), perToken)
	}
	b.refused(b.ask("one too many", func(r *retrybudget.PoolRequest) { r.Donate = perToken }))
	g := b.want(name(0), 0)
	b.equal("balance", int64(b.MaxMembers-1)*perToken, g.Balance)
	b.equal("members", int64(b.MaxMembers-1), int64(g.Members))
	b.Advance(time.Hour) // they are forgotten
	b.equal("members", 1, int64(b.want("one too many", 0).Members))
}

func leaving(_ *testing.T, b *bench) {
	b.want("one", 0)
	b.equal("members", 2, int64(b.want("two", 0).Members))
	bye := b.ask("two", func(r *retrybudget.PoolRequest) { r.Leave = true; r.Donate = 3 * perToken })
	b.equal("balance", 3*perToken, b.send(bye).Balance)
	b.equal("members", 1, int64(b.want("one", 0).Members))
	b.equal("balance when it leaves again", 3*perToken, b.send(bye).Balance)
}

func hold(_ *testing.T, b *bench) {
	b.donate("giver", 9*perToken)
	b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Hold = 5 * time.Second }))
	b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Hold = time.Second })) // does not shorten it
	g := b.want("taker", perToken)
	b.equal("granted", 0, g.Granted)
	if g.Hold < 4*time.Second || g.Hold > 5*time.Second {
		b.Fatalf("hold %v", g.Hold)
	}
	b.Advance(5 * time.Second)
	b.equal("granted after it", perToken, b.want("taker", perToken).Granted)
}

func outOfBounds(_ *testing.T, b *bench) {
	const most = 1_000_000 * perToken
	b.donate("giver", perToken)
	for _, edit := range []func(r *retrybudget.PoolRequest){
		func(r *retrybudget.PoolRequest) { r.Target = "" },
		func(r *retrybudget.PoolRequest) { r.Member = "" },
		func(r *retrybudget.PoolRequest) { r.Member = strings.Repeat("x", 129) },
		func(r *retrybudget.PoolRequest) { r.Seq = 0 },
		func(r *retrybudget.PoolRequest) { r.Seq = 1<<53 + 1 },
		func(r *retrybudget.PoolRequest) { r.Epoch = -1 },
		func(r *retrybudget.PoolRequest) { r.Expires = 1<<53 + 1 },
		func(r *retrybudget.PoolRequest) { r.Lent = -1 },
		func(r *retrybudget.PoolRequest) { r.Donate = -1 },
		func(r *retrybudget.PoolRequest) { r.Donate = most + 1 },
		func(r *retrybudget.PoolRequest) { r.Return = -1 },
		func(r *retrybudget.PoolRequest) { r.Return = 1 << 62 },
		func(r *retrybudget.PoolRequest) { r.Want = -1 },
		func(r *retrybudget.PoolRequest) { r.Want = most + 1 },
		func(r *retrybudget.PoolRequest) { r.Burst = -1 },
		func(r *retrybudget.PoolRequest) { r.Burst = most + 1 },
		func(r *retrybudget.PoolRequest) { r.PerSecond = -1 },
		func(r *retrybudget.PoolRequest) { r.PerSecond = 10_000*perToken + 1 },
		func(r *retrybudget.PoolRequest) { r.Hold = -1 },
		func(r *retrybudget.PoolRequest) { r.Hold = time.Minute + 1 },
	} {
		b.refused(b.ask("odd", edit))
	}
	g := b.want("giver", 0)
	b.equal("balance", perToken, g.Balance)
	b.equal("members", 1, int64(g.Members))
}

func largest(_ *testing.T, b *bench) {
	const most = 1_000_000 * perToken
	for i := range 150 { // more than a slot holds
		b.donate(name(i%3), most-int64(i))
	}
	g := b.send(b.ask("old", func(r *retrybudget.PoolRequest) {
		r.Seq, r.Expires, r.Lent = 1<<53, 1<<53, 1<<53
		r.Donate, r.Return, r.Want, r.Burst, r.PerSecond = most, most, most, most, 10_000*perToken
	}))
	b.equal("granted", most, g.Granted)
	if b.gone == 0 {
		b.Fatal("nothing expired")
	}
	b.Advance(300 * 24 * time.Hour)
	b.equal("a full floor", most, b.floor("old member", 10_000*perToken, most, 0).Balance)
	b.floor("old member", 10_000*perToken, most, most)
	b.Advance(1_600 * time.Millisecond) // its place is free
	b.floor("old member", 0, most, 0)
	before := b.floor("old member", 10_000*perToken-1, most, 0).Balance
	b.Advance(999_999 * time.Microsecond)
	if got := b.floor("old member", 10_000*perToken-1, most, 0).Balance - before; got < 9_999*perToken || got > 20_000*perToken {
		b.Fatalf("a second of ten thousand a second: got %d", got)
	}
}

func back(_ *testing.T, b *bench) {
	b.fill(5 * perToken)
	b.donate("giver", 4*perToken)
	epoch := b.epoch
	b.Advance(-time.Hour)
	g := b.floor("member", 10_000*perToken, 5*perToken, 9*perToken)
	b.equal("granted", 0, g.Granted)
	if g.Epoch == epoch {
		b.Fatal("the same epoch")
	}
	b.Advance(2 * time.Second)
	b.equal("granted later", 5*perToken, b.floor("member", 10_000*perToken, 5*perToken, 9*perToken).Granted)
}

func ahead(_ *testing.T, b *bench) {
	b.fill(5 * perToken)
	b.floor("member", perToken, 5*perToken, 5*perToken)
	b.donate("giver", 4*perToken)
	b.Advance(time.Hour)
	b.equal("an hour ahead", 5*perToken, b.floor("member", perToken, 5*perToken, 9*perToken).Granted)
}

func targets(_ *testing.T, b *bench) {
	b.donate("giver", 4*perToken)
	b.dry = true // books of one target are not those of another
	for _, target := range []string{"Target", "target ", "target}:pool", "{target}", "\x00", strings.Repeat("long", 1000)} {
		r := b.ask("giver", func(r *retrybudget.PoolRequest) { r.Target = target; r.Want = perToken })
		g := b.send(r)
		b.equal("balance of "+target, 0, g.Balance)
	}
	b.equal("balance", 4*perToken, b.want("giver", 0).Balance)
}

// Random requests, of which some are sent twice, later or never, while time goes
// on: send compares the books after each.
func conserved(t *testing.T, b *bench) {
	var late []retrybudget.PoolRequest
	leases := map[string]retrybudget.PoolGrant{}
	for range 600 {
		who := name(rand.IntN(6))
		r := b.ask(who, func(r *retrybudget.PoolRequest) {
			r.Burst, r.PerSecond = 5*perToken, perToken*3/2
			switch rand.IntN(4) {
			case 0:
				r.Donate, r.Expires = rand.Int64N(3*perToken), b.now+rand.Int64N(12*second)
			case 1:
				g := leases[who]
				delete(leases, who)
				r.Donate, r.Expires = rand.Int64N(g.Granted-g.Floor+1), g.Expires
				r.Return, r.Lent = rand.Int64N(g.Floor+1), g.Lent
			case 2:
				r.Want = rand.Int64N(9 * perToken)
			default:
				r.Donate, r.Want = rand.Int64N(perToken), rand.Int64N(2*perToken)
			}
		})
		switch rand.IntN(12) {
		case 0: // it never arrives
		case 1, 2: // it arrives later
			late = append(late, r)
		case 3: // it arrives, and the member dies without an answer
			b.send(r)
		default:
			if g := b.send(r); g.Granted > 0 {
				leases[who] = g
			}
		}
		if rand.IntN(5) == 0 && b.requests > 0 {
			late = append(late, r) // and once more
		}
		if len(late) > 4 || rand.IntN(9) == 0 {
			rand.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
			for _, r := range late {
				b.send(r)
			}
			late = slices.Delete(late, 0, len(late))
		}
		if rand.IntN(6) == 0 {
			b.Advance(time.Duration(rand.Int64N(int64(time.Second))))
		}
	}
	t.Logf("%d requests, %d of them stale; in %d + %d, out %d, expired %d", b.requests, b.stale, b.put, b.accrued, b.got, b.gone)
	for what, n := range map[string]int64{"stale": int64(b.stale), "donated or returned": b.put, "accrued": b.accrued, "granted": b.got, "expired": b.gone} {
		if n == 0 {
			t.Errorf("never: %s", what)
		}
	}
}
