package main

import (
	"testing"
	"time"
)

const second = time.Second

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct {
		values []int
		p      int
		want   int
	}{
		{nil, 99, 0},
		{[]int{7}, 1, 7},
		{[]int{7}, 99, 7},
		{[]int{3, 1, 2}, 50, 2},
		{[]int{3, 1, 2}, 100, 3},
		{[]int{4, 3, 1, 2}, 50, 2},
		{hundred, 99, 99},
		{hundred, 50, 50},
		{hundred, 1, 1},
	} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("p%d of %v is %d, want %d", c.p, c.values, got, c.want)
		}
	}
}

func TestWorkIsWastedFromTheMomentNobodyWants(t *testing.T) {
	// The user clicks at 10 s and has an answer, or gives up, at 15 s.
	for _, c := range []struct {
		name    string
		piece   piece
		wasted  time.Duration
		answers int
		cut     time.Duration
	}{
		{"answered in time", piece{start: 11 * second, end: 13 * second, answered: true, left: stayed}, 0, 0, 0},
		{"answered after the user left", piece{start: 14 * second, end: 16 * second, answered: true, left: stayed}, 2 * second, 1, 0},
		{"begun after the user left", piece{start: 20 * second, end: 22 * second, answered: true, left: stayed}, 2 * second, 1, 0},
		{"answered after the caller hung up", piece{start: 11 * second, end: 14 * second, answered: true, left: 13 * second}, 3 * second, 1, 0},
		{"begun after the caller hung up", piece{start: 12 * second, end: 14 * second, answered: true, left: 12 * second}, 2 * second, 1, 0},
		{"stopped while the user waited", piece{start: 11 * second, end: 14 * second, left: stayed}, 0, 0, 3 * second},
		{"stopped after the user left", piece{start: 14 * second, end: 17 * second, left: stayed}, 2 * second, 0, 1 * second},
		{"begun for nobody, and stopped", piece{start: 16 * second, end: 17 * second, left: stayed}, 1 * second, 0, 0},
		{"stopped after the caller hung up", piece{start: 11 * second, end: 14 * second, left: 12 * second}, 2 * second, 0, 1 * second},
		{"of the healthy phase", piece{start: 1 * second, end: 20 * second, answered: true, left: stayed}, 0, 0, 0},
		{"of the drain", piece{start: 60 * second, end: 70 * second, answered: true, left: stayed}, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Beside it stands ten seconds of good work, so that shares are tenths.
			good := piece{start: 11 * second, end: 15*second - 1, answered: true, left: stayed}
			rec := &recording{
				plan:   plan{healthy: 5 * second, degraded: 55 * second},
				users:  []user{{arrived: 10 * second, ended: 15 * second}},
				pieces: []piece{good, c.piece},
			}
			share, answers, cut := wastedIn(rec)
			worked := good.end - good.start
			if c.piece.start >= 5*second && c.piece.start < 60*second {
				worked += c.piece.end - c.piece.start
			}
			if want := c.wasted.Seconds() / worked.Seconds(); !near(share, want) {
				t.Errorf("wasted %.4f of the work, want %.4f", share, want)
			}
			if answers != c.answers {
				t.Errorf("%d wasted answers, want %d", answers, c.answers)
			}
			if want := c.cut.Seconds() / worked.Seconds(); !near(cut, want) {
				t.Errorf("cut %.4f of the work, want %.4f", cut, want)
			}
		})
	}
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

func TestFiguresCountTheDegradedPhaseOnly(t *testing.T) {
	rec := &recording{
		plan: plan{healthy: 2 * second, degraded: 4 * second},
		users: []user{
			{arrived: 0, ended: 1 * second, outcome: "failed"}, // healthy phase: not counted
			{arrived: 2 * second, sent: 2 * second, ended: 4 * second, outcome: outcomeBought},
			{arrived: 3 * second, sent: 3 * second, ended: 6 * second, outcome: "deadline_exceeded"},
			{arrived: 4 * second, sent: 5 * second, ended: 5 * second, outcome: outcomeBought},
			{arrived: 5 * second, sent: 5 * second, ended: 10 * second, outcome: outcomeGaveUp},
		},
		calls:    []int{9, 1, 3, 1, 1},
		arrivals: []int{1, 1, 2, 1, 2, 1, 40},
		pieces:   []piece{{user: 3, start: 4 * second, end: 12 * second, answered: true, left: stayed}},
	}
	f := measure(rec)
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("users", f.Users, 4)
	check("mean calls", f.CallsMean, 1.5)
	check("worst calls", f.CallsWorst, 3)
	check("availability", f.Availability, 0.5)
	check("availability in the second half", f.AvailabilitySecondHalf, 0.5)
	check("failures", listFailures(f.Failures, ""), "deadline_exceeded 1, gave up 1")
	check("slowest failure", f.SlowestFailure, seconds(5*second))
	check("worst total, set by work after the answer", f.WorstTotal, seconds(8*second))
	check("p99", f.P99, seconds(5*second))
	check("median", f.P50, seconds(2*second))
	check("generator late", f.GeneratorLateP99, seconds(1*second))
	check("load multiplier", f.LoadMultiplier, 1.5)
}
