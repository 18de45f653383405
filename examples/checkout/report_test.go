package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// goodFigures meet every bound.
func goodFigures() (before, curfew figures) {
	before = figures{Users: 4800, CallsMean: 14, CallsWorst: 48, WorstTotal: seconds(68 * second), LoadMultiplier: 10, Availability: 0.13}
	curfew = figures{
		Users: 4800, CallsMean: 1, CallsWorst: 1, WorstTotal: seconds(3 * second), LoadMultiplier: 1, Availability: 0.96,
		AvailabilitySecondHalf: 0.96, P99: seconds(2900 * time.Millisecond), SlowestFailure: seconds(3 * second),
		Failures: map[string]int{"deadline_exceeded": 170, "local_budget_rejected": 22},
	}
	return before, curfew
}

func TestGoodFiguresMeetEveryBound(t *testing.T) {
	before, curfew := goodFigures()
	var out strings.Builder
	if err := newReport(plan{pace: 10}, before, curfew, "").complain(&out); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestEachBoundIsNamedWhenItIsMissed(t *testing.T) {
	for name, spoil := range map[string]func(before, curfew *figures){
		"before collapses by itself":           func(b, _ *figures) { b.AvailabilitySecondHalf = 0.10 },
		"warehouse calls per checkout, worst":  func(_, c *figures) { c.CallsWorst = 4 },
		"warehouse calls per checkout, mean":   func(_, c *figures) { c.CallsMean = 1.16 },
		"worst total latency":                  func(_, c *figures) { c.WorstTotal = seconds(3251 * time.Millisecond) },
		"warehouse load multiplier":            func(_, c *figures) { c.LoadMultiplier = 1.11 },
		"availability while degraded":          func(_, c *figures) { c.Availability = 0.939 },
		"the rest fails with the right reason": func(_, c *figures) { c.Failures[outcomeGaveUp] = 1 },
		"the rest fails fast":                  func(_, c *figures) { c.SlowestFailure = seconds(3251 * time.Millisecond) },
		"p99 checkout latency":                 func(_, c *figures) { c.P99 = seconds(2901 * time.Millisecond) },
		"wasted work":                          func(_, c *figures) { c.Wasted = 0.011 },
	} {
		t.Run(name, func(t *testing.T) {
			before, curfew := goodFigures()
			spoil(&before, &curfew)
			var out strings.Builder
			err := newReport(plan{pace: 10}, before, curfew, "").complain(&out)
			if !errors.Is(err, errBounds) {
				t.Errorf("error %v", err)
			}
			if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 1 || !strings.HasPrefix(lines[0], name+": ") {
				t.Errorf("said %q", out.String())
			}
		})
	}
}

func TestTimeBoundsHaveAFloorForTimers(t *testing.T) {
	for pace, want := range map[pace]time.Duration{
		1:  3030 * time.Millisecond, // 1% is the larger
		10: 3250 * time.Millisecond, // 25 ms of real time are
	} {
		if got := withFloor(3*time.Second, pace); got != want {
			t.Errorf("at scale %g: %v, want %v", float64(pace), got, want)
		}
	}
}

func TestTextHasTheTableAndTheReasons(t *testing.T) {
	before, curfew := goodFigures()
	var out strings.Builder
	if err := newReport(plan{pace: 10}, before, curfew, "page.html").writeText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"the article's after", "48 worst, 14.00 mean", "1 worst, 1.00 mean", "13.0%", "96.0%", "2.90 s",
		"deadline_exceeded 170, local_budget_rejected 22", "none failed", "page.html",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestJSONGivesSecondsAsNumbers(t *testing.T) {
	before, curfew := goodFigures()
	var out bytes.Buffer
	if err := newReport(plan{pace: 10, seed: 3}, before, curfew, "page.html").writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Seed   uint64
		Curfew struct {
			P99 float64 `json:"p99_seconds"`
		}
		Bounds []bound
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Seed != 3 || got.Curfew.P99 != 2.9 || len(got.Bounds) != 10 {
		t.Errorf("got %+v", got)
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-scale 0", "-scale 0"},
		{"-scale NaN", "-scale NaN"},
		{"-scale 100", "-scale 100"},
		{"quick", `"quick"`},
	} {
		if err := run(t.Context(), strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}
