package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDocumentsAreFilledOrNoneIsChanged(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(text)
	}
	const table = "<!-- curfewbench: run -->\n<!-- end of curfewbench -->\n"
	const from = "../../results.jsonl" // the one that is kept
	good, bad := write("good", table), write("bad", "no table")
	assert.ErrorContains(t, run(from, []string{good, bad}), "bad: ")
	assert.Equal(t, table, read(good))
	require.NoError(t, run(from, []string{good}))
	assert.Contains(t, read(good), "Measured in one run of")
	assert.Error(t, run(filepath.Join(dir, "nothing"), nil))
}

func TestARecordOfPartOfTheCasesIsRefused(t *testing.T) {
	dir := t.TempDir()
	from, document := filepath.Join(dir, "results"), filepath.Join(dir, "document")
	const table = "<!-- curfewbench: run -->\n<!-- end of curfewbench -->\n"
	require.NoError(t, os.WriteFile(document, []byte(table), 0o600))
	whole, err := os.ReadFile("../../results.jsonl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(from, whole, 0o600))
	require.NoError(t, run(from, []string{document}))
	filled, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.NotEqual(t, table, string(filled))

	var part []string
	for line := range strings.Lines(string(whole)) {
		if !strings.Contains(line, `"case":"4 deep"`) {
			part = append(part, line)
		}
	}
	require.NoError(t, os.WriteFile(from, []byte(strings.Join(part, "")), 0o600))
	require.NoError(t, os.WriteFile(document, []byte(table), 0o600))
	err = run(from, []string{document})
	require.ErrorContains(t, err, "is not of a whole run; it has no figures of\n\tnested: 4 deep")
	assert.NotContains(t, err.Error(), "1 deep")
	left, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.Equal(t, table, string(left))
}
