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

// Several reports whether query may be more than one statement: one in a body, or a semicolon in a literal, counts too.
func Several(query string) bool {
	return strings.Contains(strings.TrimRight(query, "; \t\r\n\f\v"), ";")
}

// Reads reports whether query begins as one that writes nothing.
func Reads(query string) bool {
	switch first, rest := FirstWord(query); first {
	case "select", "show", "values", "table", "pragma":
		return true
	case "explain", "describe", "desc": // which run the statement with an ANALYZE
		rest = strings.ToLower(rest)
		return !containsOne(rest, "analyze", "analyse") || !containsOne(rest, verbs...) && !containsOne(rest, "create", "refresh", "execute")
	case "with":
		return !containsOne(strings.ToLower(rest), verbs...)
	}
	return false
}

// verbs are those that write rows. They count wherever they stand: one in a literal makes of
// what reads what may write, and not the other way round.
var verbs = []string{"insert", "update", "delete", "merge", "replace"}

func containsOne(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}
