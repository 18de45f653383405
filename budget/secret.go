package budget

import (
	"regexp"
	"strings"
)

// What stands in a cause reaches logs and peers, and the error behind it is often
// another one's: a *url.Error holds the whole URL, a driver's the data source name.
var (
	// What a URL says before its host, and after its path.
	addresses = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'`<>]+")
	// user:password@tcp(host) of go-sql-driver/mysql, and password=... of libpq.
	mysqlUsers = regexp.MustCompile("[^\\s\"'`]*@(tcp|unix)\\(")
	passwords  = regexp.MustCompile(`(?i)\b(\w*(?:password|passwd|pwd|secret|token))(\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&,;"'])+`)
)

// withoutSecrets returns text with no userinfo and no query in the URLs that stand in
// it, and no password in its data source names.
func withoutSecrets(text string) string {
	if strings.Contains(text, "://") {
		text = addresses.ReplaceAllStringFunc(text, bare)
	}
	if strings.Contains(text, "@") {
		text = mysqlUsers.ReplaceAllString(text, "$1(")
	}
	if strings.Contains(text, "=") {
		text = passwords.ReplaceAllString(text, "$1$2...")
	}
	return text
}

// bare returns address without userinfo, query and fragment.
func bare(address string) string {
	// The colon of "Get http://host/path?query: EOF" belongs to the sentence.
	end := len(strings.TrimRight(address, ":,.;)]}"))
	scheme, rest, _ := strings.Cut(address[:end], "://")
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	host, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	// A password may hold a slash that nobody escaped: then the last @ tells.
	if i := strings.LastIndexByte(rest, '@'); i > len(host) && strings.Contains(host, ":") && !isPort(host) {
		host, path = rest[i+1:], ""
	} else if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	return scheme + "://" + host + path + address[end:]
}

// isPort reports whether what follows the last colon of host is a number.
func isPort(host string) bool {
	digits := host[strings.LastIndexByte(host, ':')+1:]
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}
