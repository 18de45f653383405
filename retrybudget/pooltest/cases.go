package pooltest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/curfew-go/curfew/retrybudget"
)

func creditMoves(_ *testing.T, b *bench) {
	b.equal("balance", 5*perToken, b.donate("giver", 5*perToken).Balance)
	g := b.want("taker", 3*perToken)
	b.equal("granted", 3*perToken, g.Granted)
	b.equal("balance", 2*perToken, g.Balance)
	b.equal("members", 2, int64(g.Members))
	b.equal("granted", 2*perToken, b.want("third", 9*perToken).Granted)
	b.equal("granted", 0, b.want("third", 9*perToken).Granted)
}

func leaseIsAShare(_ *testing.T, b *bench) {
	b.donate("giver", 100*perToken)
	for i := range 4 {
		b.want(name(i), 0)
	}
	b.equal("lease of five members", 2*100/5*perToken, b.want("giver", 100*perToken).Granted)
	b.Advance(1500 * time.Millisecond) // the others are quiet
	b.equal("lease of who is alone", 60*perToken, b.want("giver", 100*perToken).Granted)
}

func leaseIsWhole(_ *testing.T, b *bench) {
	b.donate("giver", 2*perToken-1)
	b.equal("granted", 1*perToken, b.want("taker", 2*perToken).Granted)
	g := b.want("taker", perToken)
	b.equal("granted of less than one", 0, g.Granted)
	b.equal("balance", perToken-1, g.Balance)
	b.donate("giver", 5*perToken)
	b.equal("granted of one and a half wanted", perToken, b.want("taker", perToken*3/2).Granted)
}

func repeated(_ *testing.T, b *bench) {
	give := b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate = 4 * perToken })
	take := b.ask("taker", func(r *retrybudget.PoolRequest) { r.Want = perToken })
	b.send(give)
	for range 3 {
		b.equal("balance", 4*perToken, b.send(give).Balance)
	}
	b.equal("granted", perToken, b.send(take).Granted)
	for range 3 {
		b.equal("balance", 3*perToken, b.send(take).Balance)
	}
	b.equal("stale", 6, int64(b.stale))
}

func reordered(_ *testing.T, b *bench) {
	first := b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate = 4 * perToken; r.Hold = time.Minute })
	b.equal("balance", perToken, b.donate("giver", perToken).Balance)
	g := b.send(first)
	b.equal("balance", perToken, g.Balance)
	b.equal("hold", 0, int64(g.Hold))
}

func lostAnswer(_ *testing.T, b *bench) {
	b.donate("giver", 4*perToken)
	lost := b.ask("taker", func(r *retrybudget.PoolRequest) { r.Want = 3 * perToken })
	b.send(lost)
	b.equal("granted to who asks again", 0, b.send(lost).Granted)
	b.equal("what is left", perToken, b.want("taker", 9*perToken).Granted)
}

// Within half a second it may go sooner.
func creditExpires(_ *testing.T, b *bench) {
	b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate, r.Expires = 4*perToken, b.now+6*second }))
	b.Advance(4400 * time.Millisecond) // until a second before it expires
	b.equal("after 4.4 s", 4*perToken, b.want("taker", 0).Balance)
	b.Advance(700 * time.Millisecond)
	b.equal("granted after 5.1 s", 0, b.want("taker", 4*perToken).Granted)
	b.equal("expired", 4*perToken, b.gone)
	b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate, r.Expires = 4*perToken, b.now+second-1 }))
	b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate, r.Expires = 4*perToken, 0 }))
	b.equal("granted of what is too old", 0, b.want("taker", 4*perToken).Granted)
	b.donate("giver", 4*perToken) // a minute of it left
	b.Advance(10100 * time.Millisecond)
	b.equal("granted after ten seconds", 0, b.want("taker", 4*perToken).Granted)
}

func creditEndsInTime(_ *testing.T, b *bench) {
	for i := range 50 {
		b.Advance(time.Duration(rand.Int64N(int64(second))) * time.Microsecond)
		b.want("taker", 0)
		expires := b.now + rand.Int64N(8*second)
		b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate, r.Expires = perToken, expires }))
		g := b.want("taker", perToken)
		if g.Granted > 0 && (g.Expires > expires || g.Expires < b.now+g.Life.Microseconds()) {
			b.Fatalf("round %d: lent at %d for %v what expires at %d: %+v", i, b.now, g.Life, expires, g)
		}
		if g.Granted == 0 && expires > b.now+2*second {
			b.Fatalf("round %d: nothing lent", i)
		}
	}
}

func creditComesBack(_ *testing.T, b *bench) {
	b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate, r.Expires = 4*perToken, b.now+5*second }))
	for range 3 { // it does not get younger by that
		g := b.want("taker", 4*perToken)
		b.equal("granted", 4*perToken, g.Granted)
		b.equal("of the floor", 0, g.Floor)
		b.Advance(1100 * time.Millisecond)
		b.send(b.ask("taker", func(r *retrybudget.PoolRequest) { r.Donate, r.Expires = g.Granted, g.Expires }))
	}
	b.Advance(800 * time.Millisecond)
	b.equal("granted in the end", 0, b.want("taker", 4*perToken).Granted)
}

func newPoolIsEmpty(_ *testing.T, b *bench) {
	b.Lose()
	b.equal("granted", 0, b.floor("new", 10_000*perToken, 5*perToken, 5*perToken).Granted)
	b.Advance(time.Second)
	b.equal("granted while others may spend what it forgot", 0, b.floor("new", 10_000*perToken, 5*perToken, 5*perToken).Granted)
	b.Advance(600 * time.Millisecond)
	b.equal("granted later", 5*perToken, b.floor("new", 10_000*perToken, 5*perToken, 5*perToken).Granted)
}

func burstOnce(_ *testing.T, b *bench) {
	b.fill(5 * perToken)
	var got int64
	for i := range 8 {
		got += b.floor(name(i), 0, 5*perToken, 5*perToken).Granted
	}
	b.equal("granted to eight members", 5*perToken, got)
}

func floorOnce(_ *testing.T, b *bench) {
	b.fill(5 * perToken)
	var got int64
	ask := func() {
		for i := range 8 {
			got += b.floor(name(i), perToken, 5*perToken, 5*perToken).Granted
		}
	}
	ask()
	b.Advance(1600 * time.Millisecond)
	ask()
	b.equal("granted while what was lent keeps its place", 5*perToken, got)
	for range 30 {
		b.Advance(100 * time.Millisecond)
		ask()
	}
	if got < 8*perToken || got > 9*perToken { // a server's clock goes on beside ours
		b.Fatalf("want a burst of 5 and 3 s of 1/s, got %d", got)
	}
}

func lentKeepsItsPlace(_ *testing.T, b *bench) {
	const rate, burst = 3 * perToken, 9 * perToken
	b.fill(burst)
	type use struct{ at, n int64 }
	var uses []use
	for range 80 {
		b.Advance(time.Duration(rand.Int64N(int64(second/4))) * time.Microsecond)
		g := b.floor("taker", rate, burst, rand.Int64N(9*perToken))
		if g.Granted > 0 { // which is spent in the last instant
			uses = append(uses, use{b.now + g.Life.Microseconds(), g.Granted}, use{b.now, 0})
		}
	}
	for _, from := range uses {
		for _, to := range uses {
			sum := int64(0)
			for _, u := range uses {
				if from.at <= u.at && u.at <= to.at {
					sum += u.n
				}
			}
			if most := rate*(to.at-from.at)/second + burst; sum > most && to.at >= from.at {
				b.Fatalf("from %d to %d: %d, and %d is allowed", from.at, to.at, sum, most)
			}
		}
	}
}

func floorComesBack(_ *testing.T, b *bench) {
	back := func(r *retrybudget.PoolRequest, n int64, g retrybudget.PoolGrant) {
		r.Burst, r.Return, r.Lent = 5*perToken, n, g.Lent
	}
	b.fill(5 * perToken)
	g := b.floor("member", 0, 5*perToken, 4*perToken)
	b.equal("of the floor", 4*perToken, g.Floor)
	b.equal("life", second, g.Life.Microseconds())
	b.Advance(1100 * time.Millisecond)
	again := b.send(b.ask("member", func(r *retrybudget.PoolRequest) { back(r, 3*perToken, g) }))
	b.equal("balance", 4*perToken, again.Balance)
	again = b.send(b.ask("member", func(r *retrybudget.PoolRequest) { back(r, 3*perToken, g) }))
	b.equal("balance when more comes back than was lent", 4*perToken, again.Balance)
	g = b.floor("member", 0, 5*perToken, 4*perToken)
	b.Advance(1600 * time.Millisecond)
	again = b.send(b.ask("member", func(r *retrybudget.PoolRequest) { back(r, 3*perToken, g) }))
	b.equal("balance when it comes too late", 0, again.Balance)
	b.equal("expired", 6*perToken, b.gone)
}

func shortLeases(_ *testing.T, b *bench) {
	b.fill(5 * perToken)
	g := b.floor("member", 10*perToken, 5*perToken, 5*perToken)
	if g.Life < 50*time.Millisecond || g.Life > 250*time.Millisecond {
		b.Fatalf("life %v", g.Life)
	}
	var got int64
	for range 40 {
		b.Advance(50 * time.Millisecond)
		got += b.floor("member", 10*perToken, 5*perToken, perToken).Granted
	}
	if got < 17*perToken {
		b.Fatalf("2 s of 10/s: got %d", got)
	}
}

func slowFloor(_ *testing.T, b *bench) {
	b.floor("member", 7, perToken, perToken)
	for range 50 { // each gains less than one millionth
		b.Advance(100 * time.Millisecond)
		b.floor("member", 7, perToken, 0)
	}
	if g := b.floor("member", 7, perToken, 0); g.Balance < 35 || g.Balance > 70 {
		b.Fatalf("5 s of 7 millionths a second: got %d", g.Balance)
	}
}

func forgotten(_ *testing.T, b *bench) {
	b.fill(5 * perToken)
	b.send(b.ask("giver", func(r *retrybudget.PoolRequest) { r.Burst, r.Donate = 5*perToken, perToken }))
	g := b.floor("member", perToken, 5*perToken, 3*perToken)
	b.equal("of the floor", 2*perToken, g.Floor)
	again := b.ask("giver", func(r *retrybudget.PoolRequest) { r.Donate = 3 * perToken })
	give := b.ask("member", func(r *retrybudget.PoolRequest) {
		r.PerSecond, r.Burst = perToken, 5*perToken
		r.Return, r.Lent, r.Donate, r.Expires = g.Floor, g.Lent, 5*perToken, g.Expires
	})
	b.Lose()
	b.equal("balance", 0, b.send(give).Balance)
	b.equal("balance", 0, b.send(again).Balance)
	b.equal("expired", g.Floor+8*perToken, b.gone)
}
