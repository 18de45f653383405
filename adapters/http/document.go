package curfewhttp

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/curfew-go/curfew/budget"
)

// document returns p as JSON. An edge names nothing from inside: not the kind, whose
// limit it was, how much of it there was, or the phase. It is put together by hand,
// because the time of many requests is often over in the same instant, and all that
// they have left to do is this (BenchmarkExpiredQueue).
func (p *Problem) document(edge bool) []byte {
	const usual = 256
	b := append(make([]byte, 0, usual), `{"title":`...)
	b = appendJSON(b, p.Title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	b = appendText(b, "detail", p.Detail)
	if !edge {
		if p.Kind != budget.None {
			b = appendText(b, "kind", p.Kind.String())
		}
		if p.NotStarted {
			b = append(b, `,"not_started":true`...)
		}
		b = appendMillis(b, "budget_ms", p.Given)
		b = appendMillis(b, "elapsed_ms", p.Elapsed)
		b = appendMillis(b, "needed_ms", p.Needed)
		b = appendText(b, "limited_by", p.LimitedBy)
		b = appendText(b, "phase", p.Phase)
	}
	return append(b, '}', '\n')
}

// appendText adds a member that says something.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendJSON(appendName(b, name), text)
}

// appendMillis adds a member of whole milliseconds, if there is one.
func appendMillis(b []byte, name string, d time.Duration) []byte {
	if ms := d.Milliseconds(); ms > 0 {
		b = strconv.AppendInt(appendName(b, name), ms, 10)
	}
	return b
}

func appendName(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// appendJSON adds text as a JSON string.
func appendJSON(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // a string: it cannot fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
