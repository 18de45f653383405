package wire_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/budget/wire"
)

// The sender takes off its slush, once, and writes what is left.
func ExampleFormatMillis() {
	left := 400 * time.Millisecond
	if value, ok := wire.FormatMillis(left - wire.Slush{}.Of(left)); ok {
		fmt.Println("X-Request-Deadline-Ms:", value)
	}
	if _, ok := wire.FormatMillis(700 * time.Microsecond); !ok {
		fmt.Println("nothing to send: fail on this side")
	}
	// Output:
	// X-Request-Deadline-Ms: 380
	// nothing to send: fail on this side
}

// The receiver reads it strictly. Zero is valid, and means too late.
func ExampleParseMillis() {
	for _, value := range []string{"380", "0", "-5", "1700000000500"} {
		left, err := wire.ParseMillis(value)
		fmt.Println(left, err)
	}
	// Output:
	// 380ms <nil>
	// 0s <nil>
	// 0s wire: malformed remaining-ms "-5": not a number of ASCII digits
	// 0s wire: malformed remaining-ms "1700000000500": more than 10 digits: an instant, where the time left belongs?
}

// A hop keeps back 5% of what is left for itself and for both ways, at least
// 2 ms and at most 50 ms.
func ExampleSlush() {
	for _, left := range []time.Duration{10 * time.Second, 400 * time.Millisecond, 20 * time.Millisecond} {
		fmt.Println(left, "passes on", left-wire.Slush{}.Of(left))
	}
	// Output:
	// 10s passes on 9.95s
	// 400ms passes on 380ms
	// 20ms passes on 18ms
}

// A server that understands two dialects: the strictest counts, under the maximum of
// the route.
func ExampleRead() {
	header := http.Header{"Grpc-Timeout": {"5S"}, "X-Request-Deadline-Ms": {"0300"}}

	peer, err := wire.Read(header.Values, time.Now(), wire.GRPC(), wire.Millis("X-Request-Deadline-Ms"))
	if err != nil {
		fmt.Println("400:", err)
		return
	}
	limit := peer.Limit(budget.Within(2 * time.Second).Named("route maximum"))
	fmt.Println(limit)

	// A request that cannot be done in what is left is refused, whatever the maximum.
	_, cancel, err := budget.Enter(context.Background(), limit.Require(time.Second))
	defer cancel()
	fmt.Println("503:", err)
	// Output:
	// peer header X-Request-Deadline-Ms 300ms < route maximum 2s
	// 503: budget: local budget rejected: limit peer header X-Request-Deadline-Ms 300ms < route maximum 2s
}

// A client writes what is left in the form that its peer reads.
func ExampleForm_Format() {
	now := time.UnixMilli(1_700_000_000_000)
	for _, form := range []wire.Form{
		wire.GRPC(), wire.YARPC(), wire.Millis("Connect-Timeout-Ms"),
		wire.EpochMillis("X-Deadline", time.Minute), wire.EpochNanos("Finagle-Ctx-com.twitter.finagle.Deadline", time.Minute),
	} {
		value, ok := form.Format(123456789*time.Nanosecond, now)
		fmt.Printf("%s: %s %v\n", form.Header(), value, ok)
	}
	// Output:
	// grpc-timeout: 123456u true
	// Context-TTL-MS: 123 true
	// Connect-Timeout-Ms: 123 true
	// X-Deadline: 1700000000123;123 true
	// Finagle-Ctx-com.twitter.finagle.Deadline: 1700000000000000000 1700000000123456789 true
}

// Systems disagree on what 0 means.
func ExampleForm_ReverseZero() {
	envoy := wire.Millis("X-Envoy-Expected-Rq-Timeout-Ms").ReverseZero()
	for _, form := range []wire.Form{wire.Millis("X-Request-Deadline-Ms"), envoy} {
		peer, err := form.Parse("0", time.Now())
		fmt.Println(form.Header(), "limited:", peer.Limited, err)
	}
	// Output:
	// X-Request-Deadline-Ms limited: true <nil>
	// X-Envoy-Expected-Rq-Timeout-Ms limited: false <nil>
}

// The time in a proxy's queue counts, for what the peer gives and for the maximum.
func ExampleRequestStart() {
	now := time.UnixMilli(1_700_000_000_000)
	header := http.Header{"X-Request-Start": {"t=1699999999960"}, "X-Request-Deadline-Ms": {"300"}}
	peer, err := wire.Read(header.Values, now, wire.Millis("X-Request-Deadline-Ms"), wire.RequestStart("X-Request-Start"))
	fmt.Println(peer.Waited, peer.Left, err)
	// Output: 40ms 260ms <nil>
}

// A producer says until when a message is worth anything, in whatever map of headers
// its queue has; a consumer drops what is stale.
func ExampleConsumer() {
	type mail struct {
		headers map[string]string
		to      string
	}
	expires := wire.EpochMillis("X-Expires", time.Minute)
	send := func(to string, worth time.Duration, at time.Time) (mail, error) {
		value, ok := expires.Format(worth, at)
		if !ok { // without the header it would never go stale
			return mail{}, fmt.Errorf("nothing left for a mail to %s", to)
		}
		return mail{map[string]string{expires.Header(): value}, to}, nil
	}

	c := &wire.Consumer[mail]{
		Expiry:  expires,
		Limit:   budget.Within(30 * time.Second).Named("per mail"),
		Headers: func(m mail) map[string]string { return m.headers },
		Work: func(ctx context.Context, m mail, check func(string, time.Duration) error) error {
			fmt.Println("render for", m.to)
			if err := check("send", time.Second); err != nil {
				return err // too late to begin what cannot be taken back
			}
			fmt.Println("send to", m.to)
			return nil
		},
		Record: func(_ context.Context, m mail, outcome error) error { fmt.Println("record", m.to, outcome); return nil },
		Ack:    func(_ context.Context, m mail) error { fmt.Println("ack", m.to); return nil },
	}
	now := time.Now()
	deliver := func(m mail, err error) {
		if err == nil {
			err = c.Handle(context.Background(), m)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	deliver(send("ann", time.Minute, now))
	deliver(send("bob", time.Minute, now.Add(-time.Hour)))
	deliver(send("cid", 500*time.Microsecond, now))
	fmt.Printf("%+v\n", c.Stats())
	// Output:
	// render for ann
	// send to ann
	// record ann <nil>
	// ack ann
	// ack bob
	// nothing left for a mail to cid
	// {Done:1 Failed:0 Dropped:1 DeadLettered:0 Interrupted:0 Unsettled:0 Malformed:0 Skewed:0}
}
