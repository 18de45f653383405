// Package floors holds the plan of the house: which folder is on which floor
// and what its code may import. Its test compares the plan with the imports
// that are really there. A folder that is not on the plan fails it, so that
// every new room is decided on and none just happens.
package floors

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/curfew-go/curfew/internal/repo"
)

// A Room is one folder on the plan. The standard library is open to every room.
type Room struct {
	Dir   string
	Floor int

	// Own lists what the room's code may import from this repository.
	// A name that ends in /... stands for a folder and all below it.
	Own []string
	// Foreign lists the modules, or packages of them, that the room's code may
	// import from elsewhere. Its tests may import TestForeign as well.
	Foreign []string

	// ForTests marks a room that serves tests: only test files, other such
	// rooms and floor 4 may import it.
	ForTests bool
	// Whole marks a room whose folders below need no place of their own.
	Whole bool
	// Later marks a room that may still be missing.
	Later bool
}

// TopFloor is the floor that nothing imports.
const TopFloor = 4

// TestForeign lists what every room's test files may import from elsewhere.
var TestForeign = []string{"github.com/stretchr/testify", "golang.org/x/sync"}

// RootRequires lists the modules that the root module's go.mod may require
// directly. Users inherit that graph, so it grows only on purpose.
var RootRequires = []string{
	"github.com/sourcegraph/conc",
	"github.com/stretchr/testify",
	"golang.org/x/sync",
	"golang.org/x/time",
}

// Strangers are two groups of rooms that do not know each other, not even in
// tests: hedges take a Gate interface, which a retry budget happens to fit.
var Strangers = [2]string{"scope/...", "retrybudget/..."}

const (
	conc  = "github.com/sourcegraph/conc/panics"
	rate  = "golang.org/x/time/rate"
	xsync = "golang.org/x/sync"
)

var (
	ground = []string{"internal/ctxnode"}
	upTo1  = append([]string{"budget/...", "retrybudget/..."}, ground...)
	upTo2  = append([]string{"checkpoint/...", "scope/..."}, upTo1...)
)

// Plan is the house. A change here is a decision: say why in the commit.
var Plan = []Room{
	{Dir: "internal/ctxnode", Floor: 0},
	{Dir: "internal/repo", Floor: 0, ForTests: true},
	{Dir: "internal/floors", Floor: 0, ForTests: true, Own: []string{"internal/repo"}},
	{Dir: "internal/apisurface", Floor: 0, ForTests: true, Own: []string{"internal/repo"}},
	{Dir: "internal/netproxy", Floor: 0, ForTests: true},
	{Dir: "internal/servers", Floor: 0, ForTests: true},
	{Dir: "internal/stress", Floor: 0, ForTests: true},

	{Dir: "budget", Floor: 1, Own: ground, Foreign: []string{xsync}},
	{Dir: "budget/plan", Floor: 1, Own: []string{"budget"}, Foreign: []string{xsync}},
	{Dir: "budget/ledger", Floor: 1, Own: []string{"budget"}, Foreign: []string{xsync}},
	{Dir: "budget/latency", Floor: 1, Own: []string{"budget"}, Foreign: []string{xsync}},
	{Dir: "budget/meter", Floor: 1},
	{Dir: "budget/wire", Floor: 1, Own: []string{"budget"}, Foreign: []string{xsync}},
	{Dir: "retrybudget", Floor: 1, Own: with(ground, "budget"), Foreign: []string{xsync}},
	{Dir: "retrybudget/pooltest", Floor: 1, Own: []string{"retrybudget"}, ForTests: true},

	{Dir: "checkpoint", Floor: 2, Own: with(ground, "budget"), Foreign: []string{xsync}},
	// The two doors are how race and scopetest reach into scopes, and no user can.
	{Dir: "scope/internal/owner", Floor: 2, Own: with(ground, "budget")},
	{Dir: "scope/internal/lab", Floor: 2},
	{Dir: "scope", Floor: 2, Own: with(ground, "budget", "scope/internal/..."), Foreign: []string{conc, rate, xsync}},
	{Dir: "scope/race", Floor: 2, Own: with(ground, "budget", "scope", "scope/internal/owner"), Foreign: []string{conc, xsync}},
	{Dir: "scope/scopetest", Floor: 2, Own: with(ground, "budget", "scope", "scope/internal/lab"), Foreign: []string{xsync}},

	{Dir: "adapters/http", Floor: 3, Own: upTo2},
	{Dir: "adapters/http/curfewhttptest", Floor: 3, Own: with(upTo2, "adapters/http"), Later: true},
	{Dir: "adapters/internal/optout", Floor: 3},
	{Dir: "adapters/sql/internal/sqltext", Floor: 3},
	{Dir: "adapters/sql/dialect", Floor: 3, Own: []string{"adapters/sql/internal/sqltext"}},
	{Dir: "adapters/sql", Floor: 3, Own: with(upTo2, "adapters/internal/optout", "adapters/sql/dialect", "adapters/sql/internal/sqltext")},
	{Dir: "adapters/sql/sqltest", Floor: 3, Own: with(upTo2, "adapters/sql", "internal/stress"), Foreign: []string{"github.com/stretchr/testify"}, ForTests: true},
	{Dir: "adapters/pgx", Floor: 3, Own: with(upTo2, "adapters/internal/optout", "adapters/pgx/internal/stream"), Foreign: []string{"github.com/jackc/pgx/v5"}},
	{Dir: "adapters/pgx/internal/stream", Floor: 3},
	{Dir: "adapters/redis", Floor: 3, Own: upTo2, Foreign: []string{"github.com/redis/go-redis/v9"}},

	{Dir: "examples", Floor: TopFloor, Whole: true},
	{Dir: "bench", Floor: TopFloor, Whole: true},
	{Dir: "cmd", Floor: TopFloor, Whole: true, Later: true},
	{Dir: "internal/drivertest", Floor: TopFloor, Whole: true},
	{Dir: "adapters/sql/internal/drivers", Floor: TopFloor, Whole: true},
	{Dir: "adapters/sql/internal/orms", Floor: TopFloor, Whole: true},
}

// Check compares the packages of the module tree named root with the plan and
// returns one line for each rule broken, sorted. The rooms of TopFloor may
// import whatever they like; nothing may import them.
func Check(plan []Room, root string, packages []repo.Package) []string {
	var broken []string
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }

	lived := map[string]bool{}
	for _, p := range packages {
		room := roomOf(plan, p.Dir)
		if room == nil {
			report("%s: not on the plan", p.Dir)
			continue
		}
		lived[room.Dir] = true
		for _, imp := range p.Imports {
			switch target, ours := ownDir(root, imp.Path); {
			case ours:
				if why := refuseOwn(plan, room, target, imp.Test); why != "" {
					report("%s: imports %s: %s", imp.File, target, why)
				}
			case !isStandard(imp.Path):
				if !mayImportForeign(room, imp) {
					report("%s: imports %s: not among the foreign code allowed in %s", imp.File, imp.Path, room.Dir)
				}
			}
		}
	}
	for _, room := range plan {
		if !room.Later && !lived[room.Dir] {
			report("%s: on the plan, but there is no package", room.Dir)
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// refuseOwn says why code in room may not import the folder target of this
// repository, or returns "" when it may.
func refuseOwn(plan []Room, room *Room, target string, test bool) string {
	to := roomOf(plan, target)
	switch {
	case to == nil:
		return "not on the plan"
	case to.Dir == room.Dir:
		return "" // its own external tests, or below in a whole room
	case to.Floor == TopFloor:
		return "nothing imports the top floor"
	case strangers(room.Dir, target):
		return "these two do not know each other"
	case room.Floor == TopFloor || test:
		return ""
	case to.ForTests && !room.ForTests:
		return "that room is for tests"
	case !slices.ContainsFunc(room.Own, func(pattern string) bool { return match(pattern, target) }):
		return fmt.Sprintf("not among what %s (floor %d) may import", room.Dir, room.Floor)
	}
	return ""
}

func mayImportForeign(room *Room, imp repo.Import) bool {
	if room.Floor == TopFloor {
		return true
	}
	allowed := room.Foreign
	if imp.Test {
		allowed = with(allowed, TestForeign...)
	}
	return slices.ContainsFunc(allowed, func(module string) bool { return match(module+"/...", imp.Path) })
}

func roomOf(plan []Room, dir string) *Room {
	for i, room := range plan {
		if room.Dir == dir || room.Whole && match(room.Dir+"/...", dir) {
			return &plan[i]
		}
	}
	return nil
}

func strangers(a, b string) bool {
	return match(Strangers[0], a) && match(Strangers[1], b) || match(Strangers[0], b) && match(Strangers[1], a)
}

// ownDir returns the folder of an import path that belongs to this repository.
func ownDir(root, importPath string) (dir string, ours bool) {
	if importPath == root {
		return ".", true
	}
	rest, ours := strings.CutPrefix(importPath, root+"/")
	return path.Clean(rest), ours
}

// isStandard follows the go command: the first element of an import path has
// a dot unless it is the standard library's. "C" is not: cgo is foreign code.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".") && importPath != "C"
}

func match(pattern, name string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == below || strings.HasPrefix(name, below+"/")
	}
	return name == pattern
}

func with(list []string, more ...string) []string {
	return slices.Concat(list, more)
}
