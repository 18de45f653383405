package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWholeRunHasItsParts takes both modes through a short incident at high speed. At that speed the
// figures mean nothing, so it looks only at what a run leaves behind.
func TestWholeRunHasItsParts(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	log, err := os.Create(filepath.Join(t.TempDir(), "progress"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := plan{pace: 20, seed: 1, healthy: 4 * time.Second, degraded: 4 * time.Second}
	var recs []*recording
	for _, m := range []mode{{"before", startBefore}, {"curfew", startAfter}, {"curfew", startInFleet}} {
		rec, err := p.run(t.Context(), m, newProgress(log))
		if err != nil {
			t.Fatalf("mode %s: %v", m.name, err)
		}
		if n := int(p.length()/time.Second) * arrivalsPerSecond; len(rec.users) != n || len(rec.calls) != n {
			t.Errorf("mode %s: %d users, calls of %d", m.name, len(rec.users), len(rec.calls))
		}
		if len(rec.pieces) == 0 {
			t.Errorf("mode %s: no work at the warehouse", m.name)
		}
		for i, u := range rec.users {
			if u.outcome == "" || u.ended < u.sent || u.sent < u.arrived {
				t.Fatalf("mode %s: user %d: %+v", m.name, i, u)
			}
		}
		recs = append(recs, rec)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	r := newReport(p, measure(recs[0]), measure(recs[1]), page)
	if err := writePage(page, r, recs[0], recs[1]); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	html := string(written)
	if n := strings.Count(html, "<svg"); n != 3 {
		t.Errorf("%d plots in the page", n)
	}
	for _, external := range []string{"src=", "<link", "<script", "@import", "url("} {
		if strings.Contains(html, external) {
			t.Errorf("the page has %q, so it may need the network", external)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "checkout-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	progress, err := os.ReadFile(log.Name())
	if err != nil || !strings.Contains(string(progress), "curfew  draining") {
		t.Errorf("progress was %q, %v", progress, err)
	}
}

func TestStopEndsARun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	p := plan{pace: 1, seed: 1, healthy: time.Minute, degraded: time.Minute}
	_, err := p.run(ctx, mode{"curfew", startAfter}, &progress{out: t.Output()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "checkout-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
