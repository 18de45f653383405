package budget

import (
	"regexp"
	"strings"
)

// What stands in a cause reaches logs and peers, and the error behind it is often
// another one's: a *url.Error holds the whole URL, a driver's the data source name.
var (
	// What a URL says before its host, and after its path. In quotes it goes on to the
	// closing one: a password with a space or a quote is just what url.Parse refuses,
	// and then quotes in its error.
	addresses = regexp.MustCompile("\"[A-Za-z][A-Za-z0-9+.-]*://(?:[^\"\\\\\\n]|\\\\.)*|[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'`<>]+")
	// What follows a host that is none: url.Parse takes the first part of a password
	// with a "?" in it for a port, and says so.
	ports = regexp.MustCompile(`(invalid port )"(?:[^"\\]|\\.)*"`)
	// user:password@tcp(host)/name of go-sql-driver/mysql, whose network and address
	// may be missing, and what has lost its scheme.
	users = regexp.MustCompile("[^\\s\"'`]*:[^\\s\"'`]*@([\\w.-]*(?::\\d+)?[(/])|[^\\s\"'`]*@((?:tcp|unix)\\()")
	// password=... of libpq and others, and "password":"..." of JSON.
	passwords = regexp.MustCompile(`(?i)(\b(?:\w*(?:password|passwd|passphrase|pwd|secret|token|api_?key|access_?key)(?:_?key)?|pass)(?:\s*=|"\s*:)\s*)` +
		`(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\{[^}]*\}|[^\s&,;"'\\]|\\.)+`)
)

// withoutSecrets returns text with no userinfo and no query in the URLs that stand in
// it, and no password in its data source names.
func withoutSecrets(text string) string {
	if strings.Contains(text, "://") {
		text = addresses.ReplaceAllStringFunc(text, bare)
		text = ports.ReplaceAllString(text, `$1"..."`)
	}
	if strings.Contains(text, "@") {
		text = users.ReplaceAllString(text, "$1$2")
	}
	if strings.ContainsAny(text, "=:") {
		text = passwords.ReplaceAllString(text, "$1...")
	}
	return text
}

// bare returns address without userinfo, query and fragment.
func bare(address string) string {
	// The colon of "Get http://host/path?query: EOF" belongs to the sentence.
	end := len(strings.TrimRight(address, ":,.;)]}"))
	scheme, rest, _ := strings.Cut(address[:end], "://")
	kept, cut := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		kept, cut = rest[:i], rest[i:]
	}
	host, path := kept, ""
	if i := strings.IndexByte(kept, '/'); i >= 0 {
		host, path = kept[:i], kept[i:]
	}
	// A password may hold a slash that nobody escaped: then the last @ tells.
	if i := strings.LastIndexByte(kept, '@'); i > len(host) && !isHost(host) {
		host, _, _ = strings.Cut(kept[i+1:], "/")
		path = kept[i+1+len(host):]
	} else if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
		if path == "" && strings.Contains(cut, "@") {
			host = unknown // the "?" may be one in the password
		}
	}
	if !isHost(host) {
		// What stands before a "?" or a space in a password, or what is no URL.
		host, path = unknown, ""
	}
	return scheme + "://" + host + path + address[end:]
}

// unknown stands for a host of which it cannot be told where it begins.
const unknown = "..."

// isHost reports whether hosts may be one, or several with commas between, each
// with a port or without.
func isHost(hosts string) bool {
	for host := range strings.SplitSeq(hosts, ",") {
		_, port, ok := strings.Cut(host, ":")
		if ok && strings.Trim(port, "0123456789") != "" && strings.Trim(host, "[]:.0123456789abcdefABCDEF") != "" {
			return false
		}
	}
	return true
}
