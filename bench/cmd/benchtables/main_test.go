package main

import (
	"os"
	"path/filepath"
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
	from := write("results", `{"machine":"m","go":"go1","commit":"c","date":"2026-01-02","quick":false}`+"\n")
	good, bad := write("good", table), write("bad", "no table")
	assert.ErrorContains(t, run(from, []string{good, bad}), "bad: ")
	assert.Equal(t, table, read(good))
	require.NoError(t, run(from, []string{good}))
	assert.Contains(t, read(good), "on m, go1, commit c")
	assert.Error(t, run(filepath.Join(dir, "nothing"), nil))
}
