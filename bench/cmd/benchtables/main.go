// Command benchtables makes the tables in documents from what curfewbench has saved of a
// whole run. What was saved of some suites or cases, or of a run that ended early, is
// refused, and changes nothing.
//
//	benchtables -from results.jsonl README.md docs/performance.md
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/curfew-go/curfew/bench"
)

func main() {
	from := flag.String("from", "", "the `file` that curfewbench -save wrote in a run of all cases")
	flag.Parse()
	if err := run(*from, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "benchtables:", err)
		os.Exit(1)
	}
}

// run fills the tables of all documents, or changes none of them.
func run(from string, documents []string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	record, err := bench.ReadRecord(f)
	if err != nil {
		return err
	}
	if missing := record.Missing(); len(missing) > 0 {
		return fmt.Errorf("%s is not of a whole run; it has no figures of\n\t%s", from, strings.Join(missing, "\n\t"))
	}
	filled := map[string][]byte{}
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if filled[name], err = record.Fill(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if bytes.Equal(filled[name], text) {
			delete(filled, name)
		}
	}
	for name, text := range filled {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
