package stream

import "bytes"

// A class says how a statement takes to a limit in front of it. Of several
// statements in one burst the highest class counts.
type class uint8

const (
	plain  class = iota
	inside       // in a transaction only
	early        // the same, and there before any snapshot
	opens        // opens a transaction
	closes       // commits one
	never        // stands alone, or moves between savepoints
)

// byFirstWord holds the statements that are not plain.
//
// Outside of a transaction our statement and the driver's share an implicit
// one, and there some may not run at all ("cannot be executed within a
// pipeline" or "inside a transaction block", 25001), and CALL and DO may not
// commit. SET and LOCK must come before a snapshot is taken, or SET TRANSACTION
// fails and LOCK protects nothing.
var byFirstWord = map[string]class{
	"set": early, "reset": early, "show": early, "lock": early,
	"call": inside, "do": inside, "execute": inside,
	"begin": opens, "start": opens,
	"commit": closes, "end": closes,
	"rollback": never, "abort": never, "savepoint": never, "release": never,
	"vacuum": never, "reindex": never, "cluster": never, "checkpoint": never,
	"discard": never, "deallocate": never, "prepare": never,
	"listen": never, "unlisten": never,
}

// byTwoWords holds what may not run inside a transaction, in front of which
// other statements with the same first word may.
var byTwoWords = map[string]bool{
	"create database": true, "drop database": true, "alter database": true,
	"create tablespace": true, "drop tablespace": true, "alter system": true,
	"create subscription": true, "alter subscription": true, "drop subscription": true,
}

// classify looks at the words a statement begins with. A text of several
// statements is an implicit transaction already, so its first counts; but not
// one that opens or closes a transaction and goes on.
func classify(sql []byte) class {
	var buf [maxWord]byte
	first, rest := word(sql, &buf)
	k := byFirstWord[string(first)]
	switch {
	case len(first) == 0 && len(rest) == 0:
		return never // empty: with ours in front its EmptyQueryResponse would not come
	case k == plain:
		switch string(first) {
		case "create", "drop", "alter":
			return ofObject(string(first), rest)
		}
	case k == early && !isLast(rest):
		return inside // the next may be anything
	case (k == opens || k == closes) && !isLast(rest):
		return never
	case k == closes:
		if second, _ := word(rest, &buf); string(second) == "prepared" {
			return never
		}
	}
	return k
}

// ofObject returns the class of CREATE, DROP or ALTER and rest.
func ofObject(first string, rest []byte) class {
	var buf [maxWord]byte
	second, rest := word(rest, &buf)
	if byTwoWords[first+" "+string(second)] {
		return never
	}
	if first == "alter" { // ALTER TABLE DETACH PARTITION CONCURRENTLY
		if string(second) == "table" && containsFold(rest, "concurrently") && containsFold(rest, "detach") {
			return never
		}
		return plain
	}
	for range 2 { // CREATE UNIQUE INDEX CONCURRENTLY, DROP INDEX CONCURRENTLY
		if second, rest = word(rest, &buf); string(second) == "concurrently" {
			return never
		}
	}
	return plain
}

// isLast reports whether nothing but blanks and comments follows the first
// semicolon of the text, if there is one.
func isLast(sql []byte) bool {
	_, behind, found := bytes.Cut(sql, []byte{';'})
	return !found || len(skipBlanks(behind)) == 0
}

// maxWord is the length of the longest word that matters, "subscription" or
// "concurrently".
const maxWord = 12

// word returns the first word of sql in lower case, built in buf, and what follows.
// It is empty when something else comes first or it is too long to matter. Opening
// parentheses and semicolons are passed over.
func word(sql []byte, buf *[maxWord]byte) (first, rest []byte) {
	for {
		sql = skipBlanks(sql)
		if len(sql) == 0 || sql[0] != '(' && sql[0] != ';' {
			break
		}
		sql = sql[1:]
	}
	n := 0
	for n < len(sql) && (sql[n]|0x20 >= 'a' && sql[n]|0x20 <= 'z' || sql[n] == '_') {
		if n < maxWord {
			buf[n] = sql[n] | 0x20 // makes 0x7f of '_', which is in no word of ours
		}
		n++
	}
	if n > maxWord {
		return nil, sql[n:]
	}
	return buf[:n], sql[n:]
}

// skipBlanks passes over white space and comments, of which the long kind nests.
func skipBlanks(sql []byte) []byte {
	for {
		sql = bytes.TrimLeft(sql, " \t\n\r\f\v")
		switch {
		case bytes.HasPrefix(sql, []byte("--")):
			i := bytes.IndexByte(sql, '\n')
			if i < 0 {
				return nil
			}
			sql = sql[i:]
		case bytes.HasPrefix(sql, []byte("/*")):
			depth, i := 1, 2
			for depth > 0 && i < len(sql) {
				switch {
				case bytes.HasPrefix(sql[i:], []byte("/*")):
					depth, i = depth+1, i+2
				case bytes.HasPrefix(sql[i:], []byte("*/")):
					depth, i = depth-1, i+2
				default:
					i++
				}
			}
			sql = sql[i:]
		default:
			return sql
		}
	}
}

func containsFold(text []byte, lower string) bool {
	return bytes.Contains(bytes.ToLower(text), []byte(lower))
}
