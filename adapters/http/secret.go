package curfewhttp

import (
	"errors"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// bare returns err with a text that has no more of an address in it than scheme and host:
// of u, which may be nil, and of those that *url.Errors in err's tree are about. What a
// peer wrote as a header is left out as well, as it may be a Location. It is err itself
// when there is nothing to hide. What is behind it stays as it was.
func bare(err error, u *url.URL) error {
	var addresses []string
	if u != nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		addresses = []string{u.String(), u.Redacted()}
	}
	addresses = addressesIn(err, addresses)
	header, malformed := errors.AsType[textproto.ProtocolError](err)
	if len(addresses) == 0 && !malformed {
		return err
	}
	text := err.Error()
	was := text
	if what, _, _ := strings.Cut(string(header), ": "); malformed {
		text = strings.ReplaceAll(text, string(header), what)
	}
	for _, a := range addresses {
		text = without(text, a)
	}
	if text == was {
		return err
	}
	return &bareError{text, err}
}

// addressesIn adds the addresses that *url.Errors in err's tree are about.
func addressesIn(err error, to []string) []string {
	if e, ok := err.(*url.Error); ok && e.URL != "" {
		to = append(to, e.URL)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			to = addressesIn(inner, to)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			to = addressesIn(inner, to)
		}
	}
	return to
}

// without returns text with no more of address in it than scheme and host.
func without(text, address string) string {
	left := origin(address)
	quoted := strconv.Quote(address)
	text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], left)
	text = strings.ReplaceAll(text, address, left)
	u, err := url.Parse(address)
	if err != nil {
		return text
	}
	if u.RawQuery != "" {
		text = strings.ReplaceAll(text, "?"+u.RawQuery, "")
	}
	if u.User != nil {
		text = strings.ReplaceAll(text, u.User.String()+"@", "")
	}
	return text
}

// origin returns what of an address is no secret.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "..."
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// A bareError is an error whose own text has secrets in it.
type bareError struct {
	text string
	err  error
}

func (e *bareError) Error() string   { return e.text }
func (e *bareError) Unwrap() error   { return e.err }
func (e *bareError) Timeout() bool   { return saysTimeout(e.err) }
func (e *bareError) Temporary() bool { return e.Timeout() }
