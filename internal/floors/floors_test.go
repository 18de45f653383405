package floors

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/curfew-go/curfew/internal/repo"
)

const rootPath = "github.com/curfew-go/curfew"

func readHouse(t *testing.T) ([]repo.Module, []repo.Package) {
	t.Helper()
	root, err := repo.Root()
	if errors.Is(err, repo.ErrNoCheckout) {
		t.Skip("the floors are those of a checkout: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	modules, packages, err := repo.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return modules, packages
}

func TestEveryRoomKeepsToItsFloor(t *testing.T) {
	_, packages := readHouse(t)
	for _, line := range Check(Plan, rootPath, packages) {
		t.Error(line)
	}
}

func TestModulesHangTogether(t *testing.T) {
	modules, packages := readHouse(t)
	for _, line := range checkModules(modules, packages) {
		t.Error(line)
	}
}

// checkModules returns a line for each go.mod that is not tied to the others
// as it should be, or that requires more than it may.
func checkModules(modules []repo.Module, packages []repo.Package) []string {
	var broken []string
	for _, m := range modules {
		report := func(what string) { broken = append(broken, path.Join(m.Dir, "go.mod")+": "+what) }
		// The linter's module stays out of go.work, where its requirements
		// would raise the versions that our tests run with.
		if tools := m.Dir == "internal/tools"; m.InWork == tools {
			if tools {
				report("must not be used by go.work")
			} else {
				report("is not used by go.work")
			}
		}
		if want := path.Join(rootPath, m.Dir); m.Path != want {
			report("is named " + m.Path + ", its folder says " + want)
		}
		if m.Dir == "." {
			for required := range m.Requires {
				if !slices.Contains(RootRequires, required) {
					report("requires " + required + ", which is not on the list")
				}
			}
			continue
		}
		for _, other := range modules {
			imports := slices.ContainsFunc(packages, func(p repo.Package) bool {
				return p.Module == m.Dir && slices.ContainsFunc(p.Imports, func(imp repo.Import) bool {
					return imp.Path == other.Path || strings.HasPrefix(imp.Path, other.Path+"/") && owner(modules, imp.Path) == other.Path
				})
			})
			if !imports || other.Dir == m.Dir {
				continue
			}
			up, err := filepath.Rel(filepath.FromSlash(m.Dir), filepath.FromSlash(other.Dir))
			if err != nil {
				report(err.Error())
				continue
			}
			if up = filepath.ToSlash(up); m.Replaces[other.Path] != up {
				report("does not replace " + other.Path + " => " + up)
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// owner returns the path of the innermost module that holds a package.
func owner(modules []repo.Module, importPath string) string {
	best := ""
	for _, m := range modules {
		if match(m.Path+"/...", importPath) && len(m.Path) > len(best) {
			best = m.Path
		}
	}
	return best
}

// The plan itself keeps to the floors: no room may be allowed to import one
// that is missing or higher up.
func TestPlanOnlyPointsDown(t *testing.T) {
	seen := map[string]bool{}
	for _, room := range Plan {
		if seen[room.Dir] {
			t.Errorf("%s is on the plan twice", room.Dir)
		}
		seen[room.Dir] = true
		for _, pattern := range room.Own {
			found := false
			for _, other := range Plan {
				if !match(pattern, other.Dir) {
					continue
				}
				found = true
				if other.Floor > room.Floor {
					t.Errorf("%s (floor %d) may import %s (floor %d)", room.Dir, room.Floor, other.Dir, other.Floor)
				}
			}
			if !found {
				t.Errorf("%s may import %s, which is not on the plan", room.Dir, pattern)
			}
		}
	}
}

// A checker that finds nothing wrong in a sound house could also be blind, so
// it is shown one house for each rule, sound but for that rule.
func TestCheckFindsEachBrokenRule(t *testing.T) {
	plan := []Room{
		{Dir: "internal/base", Floor: 0},
		{Dir: "internal/kit", Floor: 0, ForTests: true},
		{Dir: "budget", Floor: 1, Own: []string{"internal/base"}},
		{Dir: "retrybudget", Floor: 1, Own: []string{"budget"}, Foreign: []string{"golang.org/x/time/rate"}},
		{Dir: "scope", Floor: 2, Own: []string{"budget", "retrybudget"}},
		{Dir: "scope/race", Floor: 2, Own: []string{"scope"}},
		{Dir: "adapters/http", Floor: 3, Own: []string{"scope/..."}},
		{Dir: "examples", Floor: TopFloor, Whole: true},
		{Dir: "later", Floor: 3, Later: true},
	}
	own := func(dir string) string { return path.Join(rootPath, dir) }
	for _, c := range []struct {
		name    string
		from    string
		imports string
		test    bool
		want    string // "" when allowed
	}{
		{"std", "budget", "net/http", false, ""},
		{"a floor below", "budget", own("internal/base"), false, ""},
		{"a whole subtree", "adapters/http", own("scope/race"), false, ""},
		{"foreign code on the list", "retrybudget", "golang.org/x/time/rate", false, ""},
		{"testify in a test", "scope", "github.com/stretchr/testify/require", true, ""},
		{"a test may look up", "budget", own("scope"), true, ""},
		{"a test may use the kit", "budget", own("internal/kit"), true, ""},
		{"below a whole room", "examples/shop", own("examples/lib"), false, ""},
		{"the top floor imports anything", "examples", "example.com/db", false, ""},

		{"a floor above", "budget", own("scope"), false, "not among what budget (floor 1) may import"},
		{"beside, but not on the list", "adapters/http", own("budget"), false, "not among what adapters/http (floor 3) may import"},
		{"foreign code", "budget", "golang.org/x/time/rate", false, "not among the foreign code allowed in budget"},
		{"another package of an allowed module", "retrybudget", "golang.org/x/time/ratelimit", false, "not among the foreign code"},
		{"testify outside a test", "scope", "github.com/stretchr/testify/require", false, "not among the foreign code"},
		{"foreign code in a test", "scope", "example.com/mock", true, "not among the foreign code"},
		{"cgo", "scope", "C", false, "not among the foreign code"},
		{"the kit outside a test", "budget", own("internal/kit"), false, "that room is for tests"},
		{"the top floor", "adapters/http", own("examples/shop"), false, "nothing imports the top floor"},
		{"the top floor in a test", "adapters/http", own("examples/shop"), true, "nothing imports the top floor"},
		{"strangers, even when the list says so", "scope", own("retrybudget"), false, "do not know each other"},
		{"strangers in a test", "scope/race", own("retrybudget"), true, "do not know each other"},
		{"strangers the other way", "retrybudget", own("scope/race"), true, "do not know each other"},
		{"an import that is not on the plan", "budget", own("shed"), true, "not on the plan"},
		{"a room that is not on the plan", "shed", "fmt", false, "shed: not on the plan"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var packages []repo.Package
			for _, room := range plan {
				if !room.Later {
					packages = append(packages, repo.Package{Dir: room.Dir})
				}
			}
			packages = append(packages, repo.Package{Dir: c.from, Imports: []repo.Import{{Path: c.imports, File: c.from + "/a.go", Test: c.test}}})
			got := Check(plan, rootPath, packages)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("refused: %q", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("got %q, want one line with %q", got, c.want)
			}
		})
	}

	t.Run("an empty room", func(t *testing.T) {
		got := Check([]Room{{Dir: "budget", Floor: 1}, {Dir: "later", Floor: 1, Later: true}}, rootPath, nil)
		if want := []string{"budget: on the plan, but there is no package"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestCheckModulesFindsEachBrokenRule(t *testing.T) {
	imports := func(dir, module, target string) repo.Package {
		return repo.Package{Dir: dir, Module: module, Imports: []repo.Import{{Path: target, File: dir + "/a.go"}}}
	}
	sound := func() []repo.Module {
		return []repo.Module{
			{Dir: ".", Path: rootPath, InWork: true},
			{Dir: "adapters/x", Path: rootPath + "/adapters/x", InWork: true, Replaces: map[string]string{rootPath: "../.."}},
			{Dir: "internal/tools", Path: rootPath + "/internal/tools"},
		}
	}
	packages := []repo.Package{imports("adapters/x", "adapters/x", rootPath+"/budget")}
	if got := checkModules(sound(), packages); len(got) > 0 {
		t.Fatalf("a sound house is refused: %q", got)
	}
	for _, c := range []struct {
		name   string
		damage func([]repo.Module)
		want   string
	}{
		{"not in go.work", func(m []repo.Module) { m[1].InWork = false }, "adapters/x/go.mod: is not used by go.work"},
		{"tools in go.work", func(m []repo.Module) { m[2].InWork = true }, "internal/tools/go.mod: must not be used by go.work"},
		{"misnamed", func(m []repo.Module) { m[1].Path = rootPath + "/x" }, "adapters/x/go.mod: is named"},
		{"no replace", func(m []repo.Module) { m[1].Replaces = nil }, "adapters/x/go.mod: does not replace " + rootPath + " => ../.."},
		{"a new dependency", func(m []repo.Module) { m[0].Requires = map[string]string{"example.com/dep": "v1.0.0"} }, "go.mod: requires example.com/dep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			modules := sound()
			c.damage(modules)
			got := checkModules(modules, packages)
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("got %q, want one line that starts with %q", got, c.want)
			}
		})
	}
}
