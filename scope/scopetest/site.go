package scopetest

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/curfew-go/curfew/scope"
	"github.com/curfew-go/curfew/scope/internal/lab"
)

// describe tells of one leak in one line.
func describe(l lab.Left) string {
	line := fmt.Sprintf("%s still runs (%s, %v old)", l.Path, l.State, l.Age.Round(time.Millisecond))
	if site := siteOf(l.Spawned); site != "" {
		line += ", started at " + site
	}
	if l.Function != "" {
		line += ", in " + l.Function
	}
	return line
}

// siteOf returns the innermost of the calls that is not curfew's own, as
// file:line. It is empty when there is none.
func siteOf(calls []uintptr) string {
	if len(calls) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(calls)
	for {
		f, more := frames.Next()
		if f.Function != "" && !ours(f) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

var (
	// scopePath is the import path of package scope, and modulePath that of all.
	scopePath  = reflect.TypeFor[scope.Scope]().PkgPath()
	modulePath = strings.TrimSuffix(scopePath, "/scope")
)

// ours reports whether f is code of curfew's that starts tasks for others. What
// stands in a test file is a user of it.
func ours(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	// The package ends at the first dot after the last slash. Type arguments,
	// which may have both, come after it.
	name, _, _ := strings.Cut(f.Function, "[")
	slash := strings.LastIndexByte(name, '/') + 1
	dot := strings.IndexByte(name[slash:], '.')
	if dot < 0 {
		return false
	}
	pkg := name[:slash+dot]
	return pkg == scopePath || strings.HasPrefix(pkg, scopePath+"/") || strings.HasPrefix(pkg, modulePath+"/adapters/")
}
