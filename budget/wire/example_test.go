package wire_test

import (
	"fmt"
	"time"

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
