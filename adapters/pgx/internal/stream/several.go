package stream

import "bytes"

// several reports whether the text has more than one statement. A semicolon in a body of SQL between
// BEGIN ATOMIC and END counts too.
//
// Source: PostgreSQL documentation, "Lexical Structure".
func several(sql []byte) bool {
	if bytes.IndexByte(sql, ';') < 0 {
		return false
	}
	for i := 0; i < len(sql); {
		switch c := sql[i]; c {
		case ';':
			rest := skipBlanks(sql[i+1:])
			if len(rest) > 0 && rest[0] != ';' {
				return true
			}
			i = len(sql) - len(rest)
		case '\'', '"':
			i += quoted(sql[i:], c == '\'' && i > 0 && sql[i-1]|0x20 == 'e')
		case '$':
			i += dollarQuoted(sql[i:])
		case '-', '/':
			if rest := skipBlanks(sql[i:]); len(rest) < len(sql)-i {
				i = len(sql) - len(rest)
				continue
			}
			i++
		default:
			i++
		}
	}
	return false
}

// quoted returns the length of the literal or name at the head of sql. Of a doubled quote it sees two of them.
func quoted(sql []byte, escapes bool) int {
	for i := 1; i < len(sql); i++ {
		switch {
		case sql[i] == sql[0]:
			return i + 1
		case escapes && sql[i] == '\\':
			i++
		}
	}
	return len(sql)
}

// dollarQuoted returns the length of the literal between two $tag$ at the head of sql, and 1 where there is none.
func dollarQuoted(sql []byte) int {
	n := bytes.IndexByte(sql[1:], '$') + 2
	if n < 2 || bytes.ContainsAny(sql[1:n-1], " \t\r\n;,()'\"") || n > 2 && sql[1] >= '0' && sql[1] <= '9' {
		return 1
	}
	at := bytes.Index(sql[n:], sql[:n])
	if at < 0 {
		return len(sql)
	}
	return 2*n + at
}
