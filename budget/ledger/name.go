package ledger

import (
	"regexp"
	"strings"
)

const (
	maxName   = 64
	maxLimits = 256
	unnamed   = "unnamed"
	redacted  = "redacted"
)

// clean returns what of a name may be written down. Names of services, routes,
// hosts and addresses stay as they are.
//
// A password may hold a "?" and a query an "@", so when there are both it is
// not known which part is which. Nothing of it is kept then, nor of anything
// with a "=" or, behind a ";" or a quote, a password's ":", which is how other forms
// say one; nor of a whole URL that was escaped.
func clean(name string) string {
	plain := len(name) <= maxName
	for i := 0; plain && i < len(name); i++ {
		plain = isPlain(name[i])
	}
	switch {
	case name == "":
		return unnamed
	case plain:
		return name
	}
	kept, cut := name, ""
	if i := strings.IndexAny(name, "?#"); i >= 0 {
		kept, cut = name[:i], name[i:]
	}
	if strings.Contains(cut, "@") {
		return redacted
	}
	if i := strings.LastIndex(kept, "@"); i >= 0 {
		scheme, _, isURL := strings.Cut(kept, "://")
		kept = kept[i+1:]
		if isURL && strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == "" {
			kept = scheme + "://" + kept
		}
	}
	if strings.Contains(kept, "=") || strings.Contains(kept, "%40") || said.MatchString(kept) {
		return redacted
	}
	if kept = printable(kept, maxName); kept == "" {
		return unnamed
	}
	return kept
}

// said is how JSON and some DSNs say a password.
var said = regexp.MustCompile(`(?i)(password|passwd|pwd|secret|token)["']?\s*:`)

// isPlain reports whether c may stand in any of the forms, and cannot be part
// of what clean looks for.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._/:[](){} ", c) >= 0
}

// printable replaces what would break a line, a quoted string or a header, and
// cuts what is longer than most bytes.
func printable(s string, most int) string {
	s = s[:min(len(s), most)]
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, s)
}
