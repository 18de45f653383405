package bench

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Simulate()
	code := m.Run()
	StopServers()
	os.Exit(code)
}
