package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain makes this binary a member when it is started as one.
func TestMain(m *testing.M) {
	if order := os.Getenv(memberEnv); order != "" {
		if err := beMember(context.Background(), order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTheFleetsBudgetAddsLessThanOneInEachProcess(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	var out bytes.Buffer
	page := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, run(t.Context(), []string{"-processes=6", "-length=4s", "-html=" + page}, &out))
	t.Log("\n" + out.String())
	assert.Regexp(t, `(?m)^ +4( +\d+){3}$`, out.String())
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "<svg")
	var loads [3]float64
	for line := range bytes.Lines(out.Bytes()) {
		_, _ = fmt.Sscanf(string(line), " load %f× %f× %f×", &loads[0], &loads[1], &loads[2])
	}
	assert.Greater(t, loads[0], 1.3)
	assert.Less(t, loads[1], loads[0])
	assert.Less(t, loads[2], loads[1])
	assert.LessOrEqual(t, loads[2], 1.15) // with a burst, if it could fill
}

func TestWithoutRedisItSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	assert.ErrorContains(t, run(t.Context(), nil, &bytes.Buffer{}), "redis-server is not on PATH")
}

func TestSettingsOutOfBoundsAreRefused(t *testing.T) {
	for _, arg := range []string{"-processes=0", "-processes=201", "-rate=0", "-failing=2", "-length=1s", "more"} {
		assert.Error(t, run(t.Context(), []string{arg}, &bytes.Buffer{}), arg)
	}
}
