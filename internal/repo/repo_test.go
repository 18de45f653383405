package repo

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plant writes files, named relative to a new folder, and returns the folder.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRead(t *testing.T) {
	root := plant(t, map[string]string{
		"go.work":               "go 1.26\n\nuse (\n\t.\n\t./adapters/x // nested\n)\n",
		"go.mod":                "module example.com/a\n\nrequire example.com/dep v1.2.3\n\nrequire example.com/deeper v0.1.0 // indirect\n",
		"root.go":               "package a\n\nimport \"fmt\"\n",
		"b/b.go":                "package b\n",
		"b/b_linux.go":          "//go:build linux\n\npackage b\n\nimport \"example.com/dep/sub\"\n",
		"b/b_test.go":           "package b_test\n\nimport \"testing\"\n",
		"b/testdata/skipped.go": "this is not Go",
		"_off/skipped.go":       "this is not Go",
		"adapters/x/go.mod":     "module \"example.com/a/adapters/x\"\nrequire example.com/a v0.0.0\nreplace example.com/a => ../..\n",
		"adapters/x/x.go":       "package x\n",
		"adapters/x/in/in.go":   "package in\n",
		"cmd/c/main.go":         "package main\n",
		"internal/tools/go.mod": "module example.com/a/internal/tools\n",
	})
	modules, packages, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}

	var gotModules []string
	for _, m := range modules {
		gotModules = append(gotModules, m.Dir+" "+m.Path)
		if want := m.Dir != "internal/tools"; m.InWork != want {
			t.Errorf("module %s: InWork = %v, want %v", m.Dir, m.InWork, want)
		}
	}
	wantModules := []string{". example.com/a", "adapters/x example.com/a/adapters/x", "internal/tools example.com/a/internal/tools"}
	if !slices.Equal(gotModules, wantModules) {
		t.Errorf("modules\n got %q\nwant %q", gotModules, wantModules)
	}
	if got, want := modules[0].Requires, map[string]string{"example.com/dep": "v1.2.3"}; !maps.Equal(got, want) {
		t.Errorf("requirements of the root: got %v, want %v", got, want)
	}
	if got, want := modules[1].Replaces, map[string]string{"example.com/a": "../.."}; !maps.Equal(got, want) {
		t.Errorf("replacements of the nested module: got %v, want %v", got, want)
	}

	var got []string
	for _, p := range packages {
		visible := "private"
		if p.Public() {
			visible = "public"
		}
		got = append(got, strings.Join([]string{p.Dir, p.Path, p.Module, p.Name, visible}, " "))
	}
	want := []string{
		". example.com/a . a public",
		"adapters/x example.com/a/adapters/x adapters/x x public",
		"adapters/x/in example.com/a/adapters/x/in adapters/x in public",
		"b example.com/a/b . b public",
		"cmd/c example.com/a/cmd/c . main private",
	}
	if !slices.Equal(got, want) {
		t.Errorf("packages\n got %q\nwant %q", got, want)
	}
	wantImports := []Import{
		{Path: "example.com/dep/sub", File: "b/b_linux.go"},
		{Path: "testing", File: "b/b_test.go", Test: true},
	}
	if got := packages[3].Imports; !slices.Equal(got, wantImports) {
		t.Errorf("imports of b\n got %v\nwant %v", got, wantImports)
	}
}

func TestReadReportsWhatItCannotRead(t *testing.T) {
	whole := map[string]string{
		"go.work": "go 1.26\nuse .\n",
		"go.mod":  "module example.com/a\n",
		"a.go":    "package a\n",
	}
	for name, broken := range map[string]struct{ file, text, want string }{
		"a Go file that does not parse": {"a.go", "packages a", "a.go"},
		"a go.mod without a module":     {"go.mod", "go 1.26\n", "names no module"},
		"go.work uses a missing folder": {"go.work", "use ./gone\n", "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(whole)
			files[broken.file] = broken.text
			_, _, err := Read(plant(t, files))
			if err == nil || !strings.Contains(err.Error(), broken.want) {
				t.Errorf("Read returned %v, want an error that mentions %q", err, broken.want)
			}
		})
	}
}

func TestRootOutsideACheckout(t *testing.T) {
	t.Chdir(t.TempDir())
	if dir, err := Root(); !errors.Is(err, ErrNoCheckout) {
		t.Errorf("Root() = %q, %v, want ErrNoCheckout", dir, err)
	}
}

func TestRootIsFoundFromBelow(t *testing.T) {
	root := plant(t, map[string]string{"go.work": "go 1.26\n", "a/b/c.go": "package b\n"})
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "a", "b"))
	if dir, err := Root(); err != nil || dir != root {
		t.Errorf("Root() = %q, %v, want %q", dir, err, root)
	}
}
