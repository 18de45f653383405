package main

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsThisHandler keeps the README's handler and this one, which
// compiles, the same.
func TestReadmeShowsThisHandler(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(source), ")\n\nvar client")
	code, _, found := strings.Cut(code, "\n// get returns")
	ok = ok && found
	if !ok {
		t.Fatal("main.go does not begin as expected")
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\nvar client"+code+"```\n") {
		t.Error("README.md does not show examples/handler/main.go from its first variable to the end of main")
	}
}
