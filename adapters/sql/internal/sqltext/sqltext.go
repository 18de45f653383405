// Package sqltext reads as much of the text of a statement as it takes to tell what kind it is.
package sqltext

import (
	"slices"
	"strings"
)

// FirstWord returns the first word of query in lower case, passing over blanks and
// comments, and what follows it.
func FirstWord(query string) (word, rest string) {
	rest = skipBlanks(query)
	for strings.HasPrefix(rest, "(") || strings.HasPrefix(rest, ";") {
		rest = skipBlanks(rest[1:])
	}
	n := 0
	for n < len(rest) && (rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z' || rest[n] == '_') {
		n++
	}
	return strings.ToLower(rest[:n]), rest[n:]
}

// skipBlanks passes over white space and comments. A comment with "!" or "M!" in it
// is none to MySQL, and stays.
func skipBlanks(query string) string {
	for {
		query = strings.TrimLeft(query, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(query, "--"), strings.HasPrefix(query, "#"):
			_, query, _ = strings.Cut(query, "\n")
		case strings.HasPrefix(query, "/*!"), strings.HasPrefix(query, "/*M!"):
			return query
		case strings.HasPrefix(query, "/*"):
			depth, i := 1, 2
			for depth > 0 && i < len(query) {
				switch {
				case strings.HasPrefix(query[i:], "/*"):
					depth, i = depth+1, i+2
				case strings.HasPrefix(query[i:], "*/"):
					depth, i = depth-1, i+2
				default:
					i++
				}
			}
			query = query[i:]
		default:
			return query
		}
	}
}

// Reads reports whether query begins as one that writes nothing.
func Reads(query string) bool {
	switch first, _ := FirstWord(query); first {
	case "select", "show", "explain", "values", "table", "describe", "desc", "pragma":
		return true
	case "with":
		query = strings.ToLower(query)
		return !slices.ContainsFunc([]string{"insert", "update", "delete", "merge", "replace"}, func(verb string) bool {
			return strings.Contains(query, verb)
		})
	}
	return false
}
