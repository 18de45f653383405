//go:build race

package ctxnode_test

const raceEnabled = true
