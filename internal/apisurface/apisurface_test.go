package apisurface

import (
	"errors"
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/curfew-go/curfew/internal/repo"
)

var update = flag.Bool("update", false, "rewrite the files in api/ instead of comparing them")

// publicPackages returns what users can import, of every module: the workspace
// makes the nested ones reachable from here.
func publicPackages(t *testing.T) (root string, public []repo.Package) {
	t.Helper()
	root, err := repo.Root()
	if errors.Is(err, repo.ErrNoCheckout) {
		t.Skip("the surface is that of a checkout: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, packages, err := repo.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if p.Public() {
			public = append(public, p)
		}
	}
	if len(public) == 0 {
		t.Fatal("there is no public package")
	}
	return root, public
}

func TestSurfaceIsTheOneInAPI(t *testing.T) {
	root, public := publicPackages(t)
	loaded, err := Load(root, public)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "api")
	if *update {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}

	stale, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range public {
		name, now := filepath.Join(dir, FileName(p)), Text(loaded[i])
		stale = slices.DeleteFunc(stale, func(other string) bool { return other == name })
		if *update {
			if err := os.WriteFile(name, []byte(now), 0o666); err != nil {
				t.Error(err)
			}
			continue
		}
		before, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("api/%s is missing; make api writes it", FileName(p))
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if lines := difference(string(before), now); len(lines) > 0 {
			t.Errorf("the surface of %s changed; when that is meant, run make api and commit api/%s:\n\t%s",
				p.Path, FileName(p), strings.Join(lines, "\n\t"))
		}
	}
	for _, name := range stale {
		if *update {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
			continue
		}
		t.Errorf("api/%s is of no public package; make api removes it", filepath.Base(name))
	}
}

// difference returns the lines that only one of two sorted texts has.
func difference(before, now string) []string {
	old, new := strings.Split(strings.TrimSpace(before), "\n"), strings.Split(strings.TrimSpace(now), "\n")
	var out []string
	for _, line := range old {
		if line != "" && !slices.Contains(new, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range new {
		if !slices.Contains(old, line) {
			out = append(out, "+ "+line)
		}
	}
	return out
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	root, public := publicPackages(t)
	for _, p := range public {
		found, err := Undocumented(root, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range found {
			t.Errorf("%s/%s", p.Dir, line)
		}
	}
}

const sample = `package sample

import (
	"context"
	"io"
	"time"
)

type Colour uint8

const (
	Red  Colour = iota + 1
	Blue
)

const Limit = 3 * time.Second
const Name = "sample"

var ErrDry error

type Point struct {
	X, Y int
	hidden bool
}

type Pair[K comparable, V any] struct {
	Key K ` + "`json:\"key\"`" + `
	Value V
}

func (p *Pair[K, V]) Swap(with Pair[K, V]) (old V) { return }

type inner struct{ Depth int }

func (inner) Deep() int    { return 0 }
func (*inner) Deeper() int { return 0 }

type Outer struct {
	inner
	io.Reader
}

func (Outer) Own(ctx context.Context, f func(context.Context) error) {}

type Pen interface {
	io.Closer
	Draw(p Point) error
	sealed()
}

type Number interface{ ~int | ~float64 }
type Handler func(ctx context.Context) error
type Alias = Pair[string, int]

func Map[In, Out any](ctx context.Context, in []In, f func(In) Out, more ...Pen) ([]Out, error) { return nil, nil }
func unexported() {}
`

func TestTextTellsEveryExportedThing(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "sample.go", sample, 0)
	if err != nil {
		t.Fatal(err)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := conf.Check("example.com/sample", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
package sample // import "example.com/sample"
const Blue Colour = 2
const Limit time.Duration = 3000000000
const Name untyped string = "sample"
const Red Colour = 1
field Outer.Depth int
field Outer.Reader io.Reader // embedded
field Pair.Key K `+"`json:\"key\"`"+`
field Pair.Value V
field Point.X int
field Point.Y int
func Map[In, Out any](ctx context.Context, in []In, f func(In) Out, more ...Pen) ([]Out, error)
method (*Outer) Deeper() int
method (*Pair[K, V]) Swap(with Pair[K, V]) (old V)
method (Outer) Deep() int
method (Outer) Own(ctx context.Context, f func(context.Context) error)
method (Pen) Close() error
method (Pen) Draw(p Point) error
type Alias = Pair[string, int]
type Colour uint8
type Handler func(ctx context.Context) error
type Number interface { ~int | ~float64 }
type Outer struct // has unexported fields
type Pair[K comparable, V any] struct
type Pen interface // has unexported methods
type Point struct // has unexported fields
var ErrDry error
`, "\n")
	if got := Text(pkg); got != want {
		t.Errorf("the text differs:\n\t%s", strings.Join(difference(want, got), "\n\t"))
	}
}

func TestDifferenceNamesWhatWentAndWhatCame(t *testing.T) {
	got := difference("package a\nfunc A()\nfunc B()\n", "package a\nfunc A(x int)\nfunc B()\n")
	if want := []string{"- func A()", "+ func A(x int)"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := difference("package a\n", "package a\n"); got != nil {
		t.Errorf("no difference, but got %q", got)
	}
}

func TestUndocumentedFindsWhatHasNoContract(t *testing.T) {
	const documented = `// Package a is documented.
package a

// Colours of the house.
const (
	Red = iota
	Blue
)

const (
	// Small is small.
	Small = 1
	Large = 2 // behind it on the line
)

// ErrDry is returned dry.
var ErrDry error

// A Pen draws.
type Pen struct{ Ink int }

// Draw draws.
func (*Pen) Draw() {}

// Nib's width. Nib is a method.
func (Pen) Nib() {}

// New returns a Pen.
func New() *Pen { return nil }

type hidden struct{}

func (hidden) Exported() {}
`
	for _, c := range []struct {
		name, from, to, want string
	}{
		{"all is well", "", "", ""},
		{"a package without", "// Package a is documented.\n", "", "package a: no comment"},
		{"a package's that starts otherwise", "Package a is", "This is", "package a: no comment"},
		{"a group without", "// Colours of the house.\n", "", "a.go:5: const Red: no doc comment"},
		{"one of a group without", "// Small is small.\n", "", "const Small: no doc comment"},
		{"a variable without", "// ErrDry is returned dry.\n", "", "var ErrDry: no doc comment"},
		{"a variable's that starts otherwise", "// ErrDry is", "// Is", `var ErrDry: its doc comment starts with "Is"`},
		{"a type without", "// A Pen draws.\n", "", "type Pen: no doc comment"},
		{"a type of another name", "// A Pen draws", "// A Pencil draws", `type Pen: its doc comment starts with "Pencil"`},
		{"a method without", "// Draw draws.\n", "", "method Pen.Draw: no doc comment"},
		{"a func's that starts otherwise", "// New returns", "// Returns", `func New: its doc comment starts with "Returns"`},
		{"a method of an unexported type that users reach", "type Pen struct{ Ink int }", "type Pen struct{ hidden }", "method Pen.Exported: no doc comment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(documented, c.from) {
				t.Fatalf("the sample has no %q", c.from)
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "a.go", strings.Replace(documented, c.from, c.to, 1), parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			got, err := undocumented(fset, []*ast.File{file}, "example.com/a")
			switch {
			case err != nil:
				t.Fatal(err)
			case c.want == "" && len(got) > 0:
				t.Errorf("found %q", got)
			case c.want != "" && (len(got) == 0 || !strings.Contains(got[0], c.want)):
				t.Errorf("got %q, want %q first", got, c.want)
			}
		})
	}
}
