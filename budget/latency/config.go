package latency

import (
	"fmt"
	"time"
)

// A Config says what is wanted of an Observed. The zero Config works.
type Config struct {
	// Window is how far back attempts count, at most an hour. Default: a
	// minute. A target with few calls needs a long one: the default timeout
	// takes 10 000 attempts in a window.
	Window time.Duration
	// FalseTimeouts is the wanted share of attempts that the timeout cuts off
	// although their answer was coming; 0.001 is a timeout at p99.9. It is above
	// 0 and below 1. Default: 0.001.
	FalseTimeouts float64
	// HedgeAt is the quantile after which a hedge is sent. 1 − HedgeAt is the
	// share of extra attempts. It is above 0 and below 1. Default: 0.95.
	HedgeAt float64
	// Initial is the least timeout while there are too few attempts to tell.
	// Default: 1 s, or Max when that is less.
	Initial time.Duration
	// Max bounds the timeout. Default: 30 s, or Initial when that is more.
	Max time.Duration
}

// complete checks c and sets its defaults.
func (c *Config) complete() {
	for _, d := range [...]struct {
		name  string
		value time.Duration
	}{{"Window", c.Window}, {"Initial", c.Initial}, {"Max", c.Max}} {
		if d.value < 0 {
			panic(fmt.Sprintf("latency: New: negative %s %v", d.name, d.value))
		}
	}
	if c.Window > time.Hour {
		panic(fmt.Sprintf("latency: New: Window %v is more than an hour", c.Window))
	}
	setDefault(&c.Window, time.Minute)
	setDefault(&c.FalseTimeouts, 0.001)
	setDefault(&c.HedgeAt, 0.95)
	mustBeShare("New: FalseTimeouts", c.FalseTimeouts)
	mustBeShare("New: HedgeAt", c.HedgeAt)
	if c.Max == 0 {
		c.Max = max(30*time.Second, c.Initial)
	}
	setDefault(&c.Initial, min(time.Second, c.Max))
	if c.Initial > c.Max {
		panic(fmt.Sprintf("latency: New: Initial %v is above Max %v", c.Initial, c.Max))
	}
}

func setDefault[T time.Duration | float64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func mustBeShare(what string, q float64) {
	if !(q > 0 && q < 1) {
		panic(fmt.Sprintf("latency: %s %v is not between 0 and 1", what, q))
	}
}
