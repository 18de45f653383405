package wire

import "fmt"

// A FormatError says why a value is malformed. The value is what a peer sent: it
// is short and its text printable, but it may be anything.
type FormatError struct {
	Form   string // such as "remaining-ms"
	Header string // under which it came; empty when ParseMillis was asked
	Value  string // as received, cut after 32 bytes
	Why    string
}

// Error names the form, the header, the value and what is wrong with it.
func (e *FormatError) Error() string {
	in := ""
	if e.Header != "" {
		in = " in " + e.Header
	}
	return fmt.Sprintf("wire: malformed %s%s %q: %s", e.Form, in, e.Value, e.Why)
}

func malformed(form, value, why string) *FormatError {
	const enough = 32
	if len(value) > enough {
		value = value[:enough]
	}
	return &FormatError{Form: form, Value: value, Why: why}
}
