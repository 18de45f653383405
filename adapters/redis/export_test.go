package curfewredis

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// ShiftTime makes the clock of all servers differ by what the key of that name
// holds, in microseconds, until the test ends.
func ShiftTime(t testing.TB, key string) {
	const last = "local accrued, expired = 0, 0\n"
	shifted := strings.Replace(source, last, last+"now = now + tonumber(redis.call('GET', '"+key+"') or 0)\n", 1)
	if shifted == source {
		t.Fatal("the script has another form")
	}
	before := script
	script = redis.NewScript(shifted)
	t.Cleanup(func() { script = before })
}

// Script returns the source of the script, and the version of what it stores.
func Script() (text, of string) { return source, version }
