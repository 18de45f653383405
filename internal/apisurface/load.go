// Package apisurface writes down what each public package exports, as sorted
// text with one line for each thing, and finds exported names that lack a doc
// comment. Its tests hold the text against the files in api/, so a change of
// surface is always seen in a diff.
package apisurface

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/curfew-go/curfew/internal/repo"
)

// Load type-checks the given packages and returns them in the same order.
//
// It reads the compiler's export data, which the go command has already made
// or makes now, and not the sources: the nested modules' packages depend on
// code that an importer of sources would not find. The export data is asked
// for in the flavour of this test binary, so under -race nothing is compiled
// a second time.
func Load(root string, packages []repo.Package) ([]*types.Package, error) {
	if len(packages) == 0 {
		return nil, nil
	}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	if underRace {
		args = append(args, "-race")
	}
	args = append(args, "--")
	for _, p := range packages {
		args = append(args, p.Path)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("apisurface: go list -export: %w\n%s", err, stderr.Bytes())
	}

	exports := map[string]string{}
	for dec := json.NewDecoder(&stdout); ; {
		var listed struct{ ImportPath, Export string }
		if err := dec.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("apisurface: go list -export: %w", err)
		}
		exports[listed.ImportPath] = listed.Export
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		file := exports[path]
		if file == "" {
			return nil, fmt.Errorf("apisurface: no export data for %s", path)
		}
		return os.Open(file)
	})

	loaded := make([]*types.Package, len(packages))
	for i, p := range packages {
		var err error
		if loaded[i], err = imp.Import(p.Path); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// FileName returns the name of the package's file in api/.
func FileName(p repo.Package) string {
	return strings.ReplaceAll(p.Dir, "/", "_") + ".txt"
}
