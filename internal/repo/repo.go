// Package repo tells a test what lies in this repository: its modules, its
// packages and what they import. It reads the files itself and runs no other
// program, so it works offline, and go test sees every file an answer came
// from and does not reuse a cached result after one of them changed.
package repo

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoCheckout is returned by Root when no go.work lies above the working
// folder. That is so for a module unpacked by the go command, which holds
// neither go.work nor the nested modules.
var ErrNoCheckout = errors.New("repo: no go.work above the working folder")

// Root returns the folder that holds go.work, at or above the working folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoCheckout
		}
		dir = parent
	}
}

// A Module is one go.mod of the repository.
type Module struct {
	Path     string            // the module path
	Dir      string            // its folder, slash-separated, relative to the root; "." for the root module
	InWork   bool              // go.work uses it
	Requires map[string]string // direct requirements and their versions, those marked indirect left out
	Replaces map[string]string // replaced module path to its target
}

// A Package is a folder with Go files.
type Package struct {
	Dir     string // slash-separated, relative to the root
	Path    string // the import path
	Module  string // the Dir of its module
	Name    string // the package name, without _test
	Files   []string
	Imports []Import
}

// An Import is one import line. Build constraints are not looked at: a file
// that is built on one system only counts like any other.
type Import struct {
	Path string
	File string // relative to the root
	Test bool   // the file is a _test.go file
}

// Read walks the repository and returns its modules and packages, each sorted
// by Dir. Folders whose names start with a dot or an underscore, testdata and
// vendor are not looked into, as in the go command.
func Read(root string) ([]Module, []Package, error) {
	var modules []Module
	byDir := map[string]*Package{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		base := d.Name()
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor") {
				return fs.SkipDir
			}
			// Asked before the folder's own files are reached, so that a
			// module is known before its packages.
			module, err := readModule(root, rel)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			modules = append(modules, module)
			return err
		}
		if !strings.HasSuffix(base, ".go") || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
			return nil
		}
		return readFile(fset, root, rel, byDir)
	})
	if err != nil {
		return nil, nil, err
	}
	if err := markWork(root, modules); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Dir, b.Dir) })

	packages := make([]Package, 0, len(byDir))
	for _, p := range byDir {
		m := moduleOf(modules, p.Dir)
		if m == nil {
			return nil, nil, fmt.Errorf("repo: %s lies in no module", p.Dir)
		}
		p.Module = m.Dir
		p.Path = path.Join(m.Path, within(m.Dir, p.Dir))
		packages = append(packages, *p)
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Dir, b.Dir) })
	return modules, packages, nil
}

// Public reports whether users can import p.
func (p Package) Public() bool {
	if p.Name == "main" || p.Name == "" {
		return false
	}
	parts := strings.Split(p.Dir, "/")
	return !slices.Contains(parts, "internal") && !slices.Contains([]string{"examples", "bench", "cmd"}, parts[0])
}

func readFile(fset *token.FileSet, root, rel string, byDir map[string]*Package) error {
	f, err := parser.ParseFile(fset, filepath.Join(root, rel), nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	dir := path.Dir(rel)
	p := byDir[dir]
	if p == nil {
		p = &Package{Dir: dir}
		byDir[dir] = p
	}
	test := strings.HasSuffix(rel, "_test.go")
	if !test {
		p.Name = f.Name.Name
	}
	p.Files = append(p.Files, rel)
	for _, spec := range f.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("repo: %s: import %s: %w", rel, spec.Path.Value, err)
		}
		p.Imports = append(p.Imports, Import{Path: target, File: rel, Test: test})
	}
	return nil
}

func readModule(root, dir string) (Module, error) {
	text, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
	if err != nil {
		return Module{}, err
	}
	m := Module{Dir: dir, Requires: map[string]string{}, Replaces: map[string]string{}}
	for _, words := range directives(string(text)) {
		switch {
		case words[0] == "module" && len(words) == 2:
			m.Path = words[1]
		case words[0] == "require" && len(words) == 3:
			m.Requires[words[1]] = words[2]
		case words[0] == "replace" && slices.Contains(words, "=>"):
			m.Replaces[words[1]] = words[slices.Index(words, "=>")+1]
		}
	}
	if m.Path == "" {
		return m, fmt.Errorf("repo: %s/go.mod names no module", dir)
	}
	return m, nil
}

func markWork(root string, modules []Module) error {
	text, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, words := range directives(string(text)) {
		if words[0] == "use" && len(words) == 2 {
			used[path.Clean(words[1])] = true
		}
	}
	for i := range modules {
		modules[i].InWork = used[modules[i].Dir]
		delete(used, modules[i].Dir)
	}
	for dir := range used {
		return fmt.Errorf("repo: go.work uses %s, which has no go.mod", dir)
	}
	return nil
}

// directives splits a go.mod or go.work file into its directives, each a verb
// and its words, with blocks in brackets taken apart. Requirements marked
// indirect are left out: they are the graph's and nobody's decision.
func directives(text string) [][]string {
	var out [][]string
	block := ""
	for line := range strings.Lines(text) {
		code, comment, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0 || strings.TrimSpace(comment) == "indirect":
			continue
		case block != "" && words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		for i := range words {
			words[i] = strings.Trim(words[i], `"`)
		}
		if len(words) > 1 {
			out = append(out, words)
		}
	}
	return out
}

// moduleOf returns the innermost module that holds dir.
func moduleOf(modules []Module, dir string) *Module {
	var best *Module
	for i := range modules {
		m := &modules[i]
		if m.Dir == dir || m.Dir == "." || strings.HasPrefix(dir, m.Dir+"/") {
			if best == nil || within(best.Dir, m.Dir) != "" {
				best = m
			}
		}
	}
	return best
}

// within returns the way from the folder outer down to dir, "" when they are
// the same or dir does not lie inside.
func within(outer, dir string) string {
	switch {
	case dir == outer:
		return ""
	case outer == ".":
		return dir
	}
	rest, inside := strings.CutPrefix(dir, outer+"/")
	if !inside {
		return ""
	}
	return rest
}
