package apisurface

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/curfew-go/curfew/internal/repo"
)

// Undocumented parses the package's files, its tests left out, and returns one
// sorted line for each exported name without a doc comment that starts with
// the name. Constants and variables may be covered by the comment of their
// group, fields and the methods of an interface by the comment of their type.
func Undocumented(root string, p repo.Package) ([]string, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.Files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return undocumented(fset, files, p.Path)
}

func undocumented(fset *token.FileSet, files []*ast.File, importPath string) ([]string, error) {
	d, err := doc.NewFromFiles(fset, files, importPath)
	if err != nil {
		return nil, err
	}
	c := checker{fset: fset}
	if !strings.HasPrefix(d.Doc, "Package "+d.Name+" ") {
		c.found = append(c.found, fmt.Sprintf("package %s: no comment that starts with %q", d.Name, "Package "+d.Name))
	}
	c.values(d.Consts)
	c.values(d.Vars)
	c.funcs(d.Funcs)
	for _, t := range d.Types {
		c.name(t.Decl.Pos(), "type", "", t.Name, t.Doc)
		c.values(t.Consts)
		c.values(t.Vars)
		c.funcs(t.Funcs)
		c.funcs(t.Methods)
	}
	slices.Sort(c.found)
	return c.found, nil
}

type checker struct {
	fset  *token.FileSet
	found []string
}

// name reports a comment that is missing or starts with another word. A type's
// may have an article in front.
func (c *checker) name(pos token.Pos, kind, owner, name, comment string) {
	words := strings.Fields(comment)
	if kind == "type" && len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	var what string
	switch {
	case len(words) == 0:
		what = "no doc comment"
	case identifier(words[0]) != name:
		what = fmt.Sprintf("its doc comment starts with %q", words[0])
	default:
		return
	}
	at := c.fset.Position(pos)
	c.found = append(c.found, fmt.Sprintf("%s:%d: %s %s%s: %s", filepath.Base(at.Filename), at.Line, kind, owner, name, what))
}

// identifier cuts a word off where a name must end, as in "Parse," or "Map's".
func identifier(word string) string {
	end := strings.IndexFunc(word, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		return word
	}
	return word[:end]
}

func (c *checker) funcs(list []*doc.Func) {
	for _, f := range list {
		if f.Recv == "" {
			c.name(f.Decl.Pos(), "func", "", f.Name, f.Doc)
			continue
		}
		c.name(f.Decl.Pos(), "method", strings.TrimPrefix(f.Recv, "*")+".", f.Name, f.Doc)
	}
}

// values accepts a group with a comment that says what it is, a comment above
// each name, or one behind it on its line.
func (c *checker) values(list []*doc.Value) {
	for _, v := range list {
		kind, group := v.Decl.Tok.String(), v.Decl.Lparen.IsValid()
		if group && v.Doc != "" {
			continue
		}
		for _, spec := range v.Decl.Specs {
			spec, ok := spec.(*ast.ValueSpec)
			if !ok || group && spec.Comment.Text() != "" {
				continue
			}
			comment := spec.Doc.Text()
			if !group {
				comment = v.Doc
			}
			for _, name := range spec.Names {
				if name.IsExported() {
					c.name(name.Pos(), kind, "", name.Name, comment)
				}
			}
		}
	}
}
