package curfewpgx

import "time"

// KeepFor sets how long a server may take to answer what was given up. Zero keeps nothing.
func KeepFor(d time.Duration) Option { return option(func(c *settings) { c.keep = d }) }

// Patience sets how long a login waits for a session, and a session for a login.
func Patience(d time.Duration) Option {
	return option(func(c *settings) { c.patience, c.idle = d, d })
}
