package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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
