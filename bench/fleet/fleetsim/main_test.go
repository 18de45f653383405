package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain makes this binary the command, which ends its process.
func TestMain(m *testing.M) {
	if os.Getenv("FLEETSIM") != "" {
		run(os.Args[1:], os.Stdout, os.Stderr)
	}
	os.Exit(m.Run())
}

func command(t *testing.T, args ...string) (out, errs string, code int) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "FLEETSIM=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func TestTheTableHasEveryKind(t *testing.T) {
	out, errs, code := command(t, "-members=20", "-length=2s")
	assert.Zero(t, code)
	assert.Empty(t, errs)
	for _, kind := range []string{"none", "fixed", "bucket", "finagle", "grpc", "aws", "curfew", "one"} {
		assert.Regexp(t, `(?m)^ *`+kind+` +\d\.\d{3} +\d\.\d{3}`, out)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-kinds=mine"}, {"-members=0"}, {"-failing=2"}, {"more"}, {"-nope"}} {
		out, errs, code := command(t, args...)
		assert.Equal(t, 2, code, args)
		assert.Empty(t, out)
		assert.NotEmpty(t, errs)
	}
}
