package migrating

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/examples/internal/page"
)

const pageFile = "../../docs/migrating.md"

// Each block of code on the page is one function here, which compiles and is
// tested, and each function here stands on the page.
func TestThePageShowsTheFunctionsHere(t *testing.T) { page.ShowsFunctions(t, pageFile) }

// Each surprise on the page names the example that shows it.
func TestThePageNamesTheSurprisesShownHere(t *testing.T) {
	text, err := os.ReadFile(pageFile)
	require.NoError(t, err)
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(Example_\\w+)`").FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
	}
	shown := map[string]bool{}
	for name := range page.Functions(t, true) {
		if strings.HasPrefix(name, "Example_") {
			shown[name] = true
		}
	}
	assert.NotEmpty(t, named)
	assert.Equal(t, shown, named)
}
