//go:build !linux

package servers

import (
	"errors"
	"os/exec"
)

// Freezing and killing a server with all its processes needs to see them, for
// which there is no way that all systems share. Tests of servers are skipped
// where this file is built, so none of what follows is reached.
const supported = false

var errUnsupported = errors.New("servers: not supported on this system")

type process struct{ started string }

func giveAway(string) error                { return errUnsupported }
func command(string, ...string) *exec.Cmd  { return &exec.Cmd{Err: errUnsupported} }
func aside(*exec.Cmd)                      {}
func readProcess(int) (_ process, ok bool) { return }
func freezeTree(int) error                 { return errUnsupported }
func thawTree(int) error                   { return errUnsupported }
func killTree(int) error                   { return errUnsupported }
func removeSharedMemory(string)            {}
