package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/curfew-go/curfew/internal/repo"
)

// recorded is what a run of the results would have saved.
func recorded(t *testing.T, about About, results ...Result) Record {
	var text bytes.Buffer
	require.NoError(t, about.WriteJSON(&text))
	for _, r := range results {
		require.NoError(t, r.WriteJSON(&text))
	}
	rec, err := ReadRecord(&text)
	require.NoError(t, err)
	return rec
}

func TestTheTablesOfTheDocumentsAreThoseOfTheRecordThatIsKept(t *testing.T) {
	root, err := repo.Root()
	if errors.Is(err, repo.ErrNoCheckout) {
		t.Skip("there are no documents here")
	}
	require.NoError(t, err)
	f, err := os.Open("results.jsonl")
	require.NoError(t, err)
	defer f.Close()
	rec, err := ReadRecord(f)
	require.NoError(t, err)
	for _, name := range []string{"README.md", "docs/performance.md"} {
		have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		want, err := rec.Fill(have)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(have), "%s: make tables writes this anew", name)
	}
}

func TestTheRecordThatIsKeptIsWholeAndHasEveryBound(t *testing.T) {
	f, err := os.Open("results.jsonl")
	require.NoError(t, err)
	defer f.Close()
	rec, err := ReadRecord(f)
	require.NoError(t, err)
	assert.Empty(t, rec.Missing())
	for _, q := range Requirements() {
		for _, found := range rec.findings(q) {
			assert.NotEqual(t, "not measured", found.verdict(), "%s, %s: %s", q.Suite, q.Case, found)
		}
	}
}

func TestARecordReadsBackWhatAResultWrote(t *testing.T) {
	about := About{Machine: "m", Go: "go1", Commit: "0123456789abcdef", Date: "2026-01-02T03:04:05Z", Quick: true}
	rec := recorded(t, about, sample(4))
	assert.Equal(t, about, rec.About)
	assert.Equal(t, 4.0, rec.Of("s", "c", "curfew", "ns/op"))
	assert.Equal(t, .5, rec.Of("s", "c", "curfew", "÷ peer"))
	found := rec.findings(Requirement{"s", "c", sample(4).Case.Bounds})
	require.Len(t, found, 3)
	assert.Equal(t, sample(4).Findings(), found)
	_, err := ReadRecord(strings.NewReader("{\"suite\":\"s\"}\n"))
	assert.ErrorContains(t, err, "must describe the run")
	_, err = ReadRecord(strings.NewReader("{\"machine\":\"m\"}\nno\n"))
	assert.ErrorContains(t, err, "line 2")
}

func TestARecordIsWholeWhenItHasEveryCaseOfItsScale(t *testing.T) {
	for _, about := range []About{{Machine: "m"}, {Machine: "m", Quick: true}} {
		rec := Record{About: about}
		var all []string
		for _, s := range Suites() {
			for _, c := range s.Cases(Scale{Quick: about.Quick}) {
				rec.Lines = append(rec.Lines, Line{Suite: s.Name, Case: c.Name, System: "curfew", Metric: c.main()})
				all = append(all, s.Name+": "+c.Name)
			}
		}
		assert.Empty(t, rec.Missing())
		last := len(rec.Lines) - 1
		assert.Equal(t, all[last:], Record{about, rec.Lines[:last]}.Missing(), "a run that ended early")
		assert.Equal(t, all, Record{About: about}.Missing())
	}
}

func TestTablesAreFilledBetweenTheirLinesAndNothingElseChanges(t *testing.T) {
	rec := recorded(t, About{Machine: "m", Go: "go1", Commit: "c", Date: "2026-01-02"}, sample(4))
	filled, err := rec.Fill([]byte("before\n<!-- curfewbench: run -->\nold\n<!-- end of curfewbench -->\nbetween\n<!-- curfewbench: fanout -->\n<!-- end of curfewbench -->\nafter\n"))
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^before\n<!-- curfewbench: run -->\nMeasured in one run of .* on m, go1, commit c, 2026-01-02\.\n<!-- end of curfewbench -->\nbetween\n`+
		`<!-- curfewbench: fanout -->\n\| case .*<!-- end of curfewbench -->\nafter\n$`, string(filled))
	again, err := rec.Fill(filled)
	require.NoError(t, err)
	assert.Equal(t, filled, again)
	for document, text := range map[string]string{
		"nothing": "there is no line",
		"<!-- curfewbench: none -->\n<!-- end of curfewbench -->": `no table "none"`,
		"<!-- curfewbench: run -->\n":                             "does not end",
	} {
		_, err := rec.Fill([]byte(document))
		assert.ErrorContains(t, err, text)
	}
}

func TestTheRunSaysWhenItsSourcesWereChanged(t *testing.T) {
	about := About{Machine: "m", Go: "go1", Commit: "0123456789abcdef with changes", Date: "2026-01-02"}
	assert.Contains(t, Record{About: about}.runLine(), "commit 0123456789ab with changes, 2026-01-02")
}

func TestARecordOfTwoRunsIsRefused(t *testing.T) {
	const about = `{"machine":"m","go":"go1","commit":"c","date":"2026-01-02","quick":false}` + "\n"
	_, err := ReadRecord(strings.NewReader(about + about))
	assert.ErrorContains(t, err, "line 2")
}

func TestFiguresHaveTheirUnitOnce(t *testing.T) {
	for text, l := range map[string]Line{
		"1.50 µs": {Metric: "ns/op", Value: 1500}, "returned 2 ms": {Metric: "returned-ns", Value: 2e6}, "p99.9 3 ms": {Metric: "p99.9-ms", Value: 3},
		"goodput 90%": {Metric: "goodput-%", Value: 90}, "3 allocs": {Metric: "allocs/op", Value: 3}, "load 1.05": {Metric: "load", Value: 1.05},
		"calls-mean 1": {Metric: "calls-mean", Value: 1}, "pool 120/s": {Metric: "pool-calls/s", Value: 120}, "in-flight 200": {Metric: "in-flight", Value: 200},
	} {
		l.Unit = unit(l.Metric)
		assert.Equal(t, text, withUnit(l))
	}
}
