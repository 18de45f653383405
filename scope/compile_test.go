package scope_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAScopeWithoutALimitDoesNotCompile holds S2: there is no call of Run or
// RunValue that forgets the deadline.
func TestAScopeWithoutALimitDoesNotCompile(t *testing.T) {
	const program = `package p

import (
	"context"
	"time"

	"github.com/curfew-go/curfew/budget"
	"github.com/curfew-go/curfew/scope"
)

var _ = time.Second
var _ budget.Limit

func f(ctx context.Context) {
	%s
}
`
	const body = `func(context.Context, *scope.Scope) error { return nil }`
	const valueBody = `func(context.Context, *scope.Scope) (int, error) { return 0, nil }`
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "source", nil)
	for _, c := range []struct{ call, wrong string }{
		{`scope.Run(ctx, "x", budget.Within(time.Second), ` + body + `)`, ""},
		{`scope.Run(ctx, "x", budget.Inherited(), ` + body + `)`, ""},
		{`scope.Run(ctx, "x", ` + body + `)`, "not enough arguments in call to scope.Run"},
		{`scope.Run(ctx, "x", nil, ` + body + `)`, "cannot use nil as budget.Limit"},
		{`scope.Run(ctx, "x", time.Second, ` + body + `)`, "cannot use time.Second"},
		{`scope.Run(ctx, "x", 0, ` + body + `)`, "cannot use 0"},
		{`scope.RunValue(ctx, "x", budget.Until(time.Now()), ` + valueBody + `)`, ""},
		{`scope.RunValue(ctx, "x", ` + valueBody + `)`, "not enough arguments in call to scope.RunValue"},
	} {
		t.Run(c.call, func(t *testing.T) {
			file, err := parser.ParseFile(fset, "p.go", fmt.Sprintf(program, c.call), 0)
			assert.NoError(t, err)
			_, err = (&types.Config{Importer: imports}).Check("p", fset, []*ast.File{file}, nil)
			if c.wrong == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.wrong)
			}
		})
	}
}
