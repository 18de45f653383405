package curfewredis

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// ShiftTime makes the clock of p's server differ by what the key of that name
// holds, in microseconds.
func ShiftTime(t testing.TB, p *Pool, key string) {
	const last = "local accrued, expired = 0, 0\n"
	shifted := strings.Replace(source, last, last+"now = now + tonumber(redis.call('GET', '"+key+"') or 0)\n", 1)
	if shifted == source {
		t.Fatal("the script has another form")
	}
	p.script = redis.NewScript(shifted)
}

// Script returns the source of the script, and the version of what it stores.
func Script() (text, of string) { return source, version }
