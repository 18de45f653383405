package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/bench"
)

func TestMain(m *testing.M) {
	bench.Simulate()
	os.Exit(m.Run())
}

func TestWrongArgumentsAreRefusedBeforeAnythingRuns(t *testing.T) {
	for args, text := range map[string]string{
		"-suite nothing": `no suite "nothing"`,
		"fanout":         `unexpected argument "fanout"`,
		"-fast":          "not defined: -fast",
		"-case (":        "-case: error parsing regexp: missing closing )",

		"-suite checkpoint,retry -case ^succes$": "no case matches \"^succes$\"; there are\n\tcheckpoint: turn\n\tretry: success\n\tretry: contended budget\n",
		"-quick -suite overload -case ^3":        "overload: 1 × capacity\n\toverload: 2 × capacity\n",
	} {
		var out, errs strings.Builder
		assert.Equal(t, 2, run(strings.Fields(args), &out, &errs, false), args)
		assert.Empty(t, out.String(), args)
		assert.Contains(t, errs.String(), text, args)
	}
}

func TestWithoutATerminalThereIsNoProgress(t *testing.T) {
	var out, errs strings.Builder
	assert.Zero(t, run([]string{"-suite", "checkpoint", "-quick", "-json"}, &out, &errs, false))
	assert.Empty(t, errs.String())
	assert.Contains(t, out.String(), `"system":"curfew"`)
}

func TestOnlyTheCasesThatMatchRunAndTheirBoundsCount(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "saved")
	var out, errs strings.Builder
	// The bounds of these are not looked at, since machines are too busy for them.
	assert.Zero(t, run([]string{"-suite", "checkpoint,nested,retry", "-case", "^(1 deep|success)$", "-quick", "-save", saved}, &out, &errs, false))
	assert.Empty(t, errs.String())
	assert.NotContains(t, out.String(), "# checkpoint", "none of its cases was asked for")
	text, err := os.Open(saved)
	require.NoError(t, err)
	defer text.Close()
	rec, err := bench.ReadRecord(text)
	require.NoError(t, err)
	ran := map[string]bool{}
	for _, l := range rec.Lines {
		ran[l.Suite+": "+l.Case] = true
	}
	assert.Equal(t, map[string]bool{"nested: 1 deep": true, "retry: success": true}, ran)
	assert.Regexp(t, `\n\d bounds met, \d missed, 0 not measured\n`, out.String())
	assert.NotContains(t, out.String(), "4 deep")
	assert.NotEmpty(t, rec.Missing(), "so that no tables are made of it")
}

func TestACPUProfileIsWrittenWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu")
	var out, errs strings.Builder
	assert.Zero(t, run([]string{"-suite", "checkpoint", "-quick", "-cpuprofile", file}, &out, &errs, false))
	assert.Empty(t, errs.String())
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	require.NoError(t, err)
	profile, err := io.ReadAll(unpacked)
	require.NoError(t, err, "its end is there")
	assert.Contains(t, string(profile), "bench.Run")

	out.Reset()
	assert.Equal(t, 1, run([]string{"-suite", "checkpoint", "-cpuprofile", filepath.Join(file, "none")}, &out, &errs, false))
	assert.Empty(t, out.String(), "nothing ran")
	assert.Contains(t, errs.String(), "curfewbench: open ")
}
