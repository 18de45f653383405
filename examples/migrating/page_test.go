package migrating

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

const pageFile = "../../docs/migrating.md"

// functions returns the source of the functions in the Go files here, by name.
func functions(t *testing.T, tests bool) map[string]string {
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

// Each block of code on the page is one function here, which compiles and is
// tested, and each function here stands on the page.
func TestThePageShowsTheFunctionsHere(t *testing.T) {
	text, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1)
	shown := map[string]bool{}
	here := functions(t, false)
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

// Each surprise on the page names the example that shows it.
func TestThePageNamesTheSurprisesShownHere(t *testing.T) {
	text, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Example_\\w+)`").FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
	}
	shown := map[string]bool{}
	for name := range functions(t, true) {
		if strings.HasPrefix(name, "Example_") {
			shown[name] = true
		}
	}
	assert.NotEmpty(t, named)
	assert.Equal(t, shown, named)
}
