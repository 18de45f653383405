// Package page keeps pages of documentation and the code they show the same.
package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Functions returns the source of the functions in the Go files of the directory in
// which the test runs, by name: of its tests, or of all else.
func Functions(t *testing.T, tests bool) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	all := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") != tests {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, source, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				all[f.Name.Name] = string(source[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset])
			}
		}
	}
	return all
}

// ShowsFunctions fails t unless each block of Go on the page is a function of the
// directory, as it stands there, and each of these functions stands on the page.
func ShowsFunctions(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1)
	shown := map[string]bool{}
	here := Functions(t, false)
	for _, b := range blocks {
		name := regexp.MustCompile(`^func (?:\(.*?\) )?(\w+)`).FindStringSubmatch(b[1])
		if assert.NotNil(t, name, "no function:\n%s", b[1]) {
			shown[name[1]] = true
			assert.Equal(t, here[name[1]], b[1])
		}
	}
	for name := range here {
		assert.True(t, shown[name], "%s does not stand on the page", name)
	}
}
