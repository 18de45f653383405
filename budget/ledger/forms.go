package ledger

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// String returns the account in one line, for people.
func (l *Ledger) String() string {
	if l == nil {
		return "no ledger"
	}
	return l.Report().String()
}

// LogValue returns the account as a group of attributes with curfew's telemetry
// names, so that with the key "curfew" they are curfew.deadline.remaining_in_ms
// and so on. Durations are in milliseconds, with fractions.
func (l *Ledger) LogValue() slog.Value {
	if l == nil {
		return slog.GroupValue()
	}
	return l.Report().LogValue()
}

// ServerTiming returns the account as the value of a Server-Timing header
// (https://www.w3.org/TR/server-timing/). It is made while the request is still
// open, with what is known then. It names what was called: not for clients
// outside. It is at most 2 KB long, since proxies refuse an answer whose header is
// too large; "more" says how many calls are left out.
func (l *Ledger) ServerTiming() string {
	if l == nil {
		return ""
	}
	return l.Report().ServerTiming()
}

// String returns the account in one line, for people.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in %v", r.Hop, r.Outcome, round(r.Total))
	if r.HasDeadline {
		fmt.Fprintf(&b, " of %v", round(r.RemainingIn))
	} else {
		b.WriteString(" without a deadline")
	}
	fmt.Fprintf(&b, ", local %v", round(r.Local))
	writeStages(&b, ", ", r.Stages)
	if r.Past > 0 {
		fmt.Fprintf(&b, ", past the deadline %v", round(r.Past))
	}
	if r.LimitedBy != "" {
		fmt.Fprintf(&b, ", limited by %s", r.LimitedBy)
	}
	for _, c := range r.Calls {
		fmt.Fprintf(&b, "; %s %s in %v", c.Target, c.Outcome, round(c.Took))
		if c.RemainingOut > 0 {
			fmt.Fprintf(&b, " of %v", round(c.RemainingOut))
		}
		writeStages(&b, ", ", c.Stages)
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "; %d more calls", r.More)
	}
	return b.String()
}

func writeStages(b *strings.Builder, sep string, spent [stages]time.Duration) {
	for s, d := range spent {
		if d > 0 {
			fmt.Fprintf(b, "%s%v %v", sep, Stage(s), round(d))
		}
	}
}

// round drops what is below a thousandth of d, and below a microsecond.
func round(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d/unit >= 1000 || d/unit <= -1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// LogValue returns what Ledger.LogValue does.
func (r Report) LogValue() slog.Value {
	deadline := []slog.Attr{slog.String("outcome", r.Outcome), ms("local_ms", r.Local)}
	if r.HasDeadline {
		deadline = append(deadline, ms("remaining_in_ms", r.RemainingIn))
	}
	if r.LimitedBy != "" {
		deadline = append(deadline, slog.String("limited_by", r.LimitedBy))
	}
	attrs := []slog.Attr{slog.String("hop", r.Hop), ms("total_ms", r.Total), group("deadline", deadline)}
	if r.Kind.Sentinel() != nil {
		attrs = append(attrs, group("cancelled", []slog.Attr{slog.String("kind", r.Kind.String()), slog.String("route", r.Hop)}))
	}
	if r.Past > 0 {
		attrs = append(attrs, ms("wasted_ms", r.Past))
	}
	attrs = appendStages(attrs, r.Stages)
	for i, c := range r.Calls {
		call := []slog.Attr{slog.String("target", c.Target), slog.String("outcome", c.Outcome), ms("took_ms", c.Took)}
		if c.RemainingOut > 0 {
			call = append(call, group("deadline", []slog.Attr{ms("remaining_out_ms", c.RemainingOut)}))
		}
		attrs = append(attrs, group("call_"+strconv.Itoa(i+1), appendStages(call, c.Stages)))
	}
	if r.More > 0 {
		attrs = append(attrs, slog.Int("more_calls", r.More))
	}
	return slog.GroupValue(attrs...)
}

func appendStages(attrs []slog.Attr, spent [stages]time.Duration) []slog.Attr {
	for s, d := range spent {
		if d > 0 {
			attrs = append(attrs, ms(stageNames[s]+"_ms", d))
		}
	}
	return attrs
}

func group(key string, attrs []slog.Attr) slog.Attr {
	return slog.Attr{Key: key, Value: slog.GroupValue(attrs...)}
}

func ms(key string, d time.Duration) slog.Attr { return slog.Float64(key, millis(d)) }

// millis returns d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return math.Round(float64(d)/1000) / 1000 }

// ServerTiming returns what Ledger.ServerTiming does.
func (r Report) ServerTiming() string {
	var b strings.Builder
	metric := func(name, desc string, d time.Duration) {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
		if desc != "" {
			fmt.Fprintf(&b, `;desc="%s"`, desc) // printable already; %q would escape what the grammar does not
		}
		b.WriteString(";dur=" + strconv.FormatFloat(millis(d), 'f', -1, 64))
	}
	metric("total", r.Hop, r.Total)
	if r.HasDeadline {
		metric("remaining_in", "", max(r.RemainingIn, 0))
	}
	metric("local", "", r.Local)
	for s, d := range r.Stages {
		if d > 0 {
			metric(stageNames[s], "", d)
		}
	}
	end := ", outcome;desc=\"" + r.Outcome + `"`
	for i, c := range r.Calls {
		listed := b.Len()
		metric("call", c.Target, c.Took)
		for s, d := range c.Stages {
			if d > 0 {
				metric(stageNames[s], c.Target, d)
			}
		}
		if more := r.More + len(r.Calls) - i; b.Len()+len(end)+len(moreCalls(more)) > maxTiming {
			return b.String()[:listed] + moreCalls(more) + end
		}
	}
	if r.More > 0 {
		b.WriteString(moreCalls(r.More))
	}
	return b.String() + end
}

// maxTiming bounds the value of a Server-Timing header. Proxies give the whole header
// of an answer as little as 4 KB.
const maxTiming = 2048

func moreCalls(n int) string { return ", more;desc=\"" + strconv.Itoa(n) + ` calls"` }
