package plan_test

import (
	"math"
	"testing"
	"time"

	"github.com/curfew-go/curfew/budget/plan"
	"github.com/curfew-go/curfew/budget/latency"
)

func TestZZPlan(t *testing.T) {
	inf := time.Duration(math.MaxInt64)
	try := func(name string, f func()) { defer func() { if r := recover(); r != nil { t.Log(name, "panic:", r) } }(); f() }
	for name, c := range map[string]plan.Call{
		"negative own": {Name: "r", Timeout: time.Second, Own: -time.Second, Calls: []plan.Call{{Name: "a", Timeout: time.Second}}},
		"negative timeout": {Name: "r", Timeout: -time.Second, Calls: []plan.Call{{Name: "a", Timeout: -time.Second, Attempts: 3}}},
		"huge": {Name: "r", Timeout: inf, Attempts: math.MaxInt, Own: inf, Reserve: inf, Calls: []plan.Call{{Name: "a", Timeout: inf, Attempts: math.MaxInt}}},
		"typed nil": {Name: "r", Timeout: time.Second, Observed: (*latency.Observed)(nil)},
		"nan": {Name: "r", Timeout: time.Second, Share: math.NaN()},
		"share": {Name: "r", Timeout: time.Second, Share: 0.9999999999999999},
		"many": {Name: "r", Timeout: time.Millisecond, Calls: []plan.Call{{Name: "a", Attempts: math.MaxInt}, {Name:"b"}}},
		"parallel open optional": {Name: "r", Timeout: time.Second, Parallel: true, Calls: []plan.Call{{Name: "a"}, {Name:"b", Attempts: 2000}}},
	} {
		try(name, func() { t.Log(name, plan.Check(c)) })
		try(name, func() { t.Log(name, plan.WorstCase(c)) })
		try(name, func() { p, err := plan.Fit(c, nil); t.Log(name, p, err) })
		try(name, func() { p, err := plan.Fit(c, func(d time.Duration) time.Duration { return inf }); t.Log(name, p, err) })
	}
	// slush applied where? Fit with wire slush vs what arrives
	p, err := plan.Fit(plan.Call{Name: "g", Timeout: time.Second, Calls: []plan.Call{{Name: "a", Timeout: 500*time.Millisecond, Own: 475*time.Millisecond}}}, func(d time.Duration) time.Duration { return d/20 })
	t.Log(p, err)
}
