package curfewhttp

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/budget"
)

// Whatever the texts are, the document is JSON that says the same.
func TestProblemDetailsAreJSONWhateverTheySay(t *testing.T) {
	for _, text := range []string{
		"", "plain", `a "quote" and a \`, "two\nlines\tand \x00 \x1f \x7f", "<script>&amp;</script>", "naïve, 期限, \u2028", "bad \xff\xfe bytes",
	} {
		p := &Problem{
			Status: 504, Title: text, Detail: text, Kind: budget.DeadlineExceeded, NotStarted: true,
			Given: 1500 * time.Millisecond, Elapsed: time.Hour, Needed: 999 * time.Microsecond, LimitedBy: text, Phase: text,
		}
		want := map[string]any{"title": readBack(t, text), "status": 504.0, "kind": "deadline_exceeded", "not_started": true, "budget_ms": 1500.0, "elapsed_ms": 3.6e6}
		if text != "" {
			for _, name := range []string{"detail", "limited_by", "phase"} {
				want[name] = readBack(t, text)
			}
		}
		assert.Equal(t, want, read(t, p.document(false)), "%q", text)
		for name := range want {
			if name != "title" && name != "status" && name != "detail" {
				delete(want, name)
			}
		}
		assert.Equal(t, want, read(t, p.document(true)), "an edge, %q", text)
	}
	assert.Equal(t, `{"title":"Bad Request","status":400}`+"\n", string((&Problem{Title: "Bad Request", Status: 400}).document(false)))
}

func read(t *testing.T, document []byte) (m map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(document, &m), "%s", document)
	return m
}

// readBack is text as JSON has it, which has no bytes that are not UTF-8.
func readBack(t *testing.T, text string) (s string) {
	t.Helper()
	b, err := json.Marshal(text)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &s))
	return s
}
