package curfewhttp

import (
	"net/http"
	"strconv"
	"strings"
)

// AttemptHeader is the name of the request header in which a Transport says that
// an attempt is not the first one of its call, and whether it is a hedge, which a
// server under load may refuse first. It is an integer item with one parameter
// (RFC 9651, section 3.3.1):
//
//	X-Request-Attempt: 2
//	X-Request-Attempt: 2;hedge
//
// A first attempt does not bear it. What a caller's request says in it is dropped.
const AttemptHeader = "X-Request-Attempt"

// maxAttempt bounds what is believed of a peer.
const maxAttempt = 9999

// AttemptOf returns the number of the attempt that a request with header h is, the
// first being 1, and whether it is a hedge. A header that is malformed, says zero or
// more than 9999, or is there twice, counts as none: 1, false. Parameters that this
// version does not know are passed over.
func AttemptOf(h http.Header) (number int, hedge bool) {
	values := h[AttemptHeader]
	if len(values) != 1 || len(values[0]) > 64 {
		return 1, false
	}
	item, params, _ := strings.Cut(values[0], ";")
	if item == "" || strings.Trim(item, "0123456789") != "" {
		return 1, false
	}
	number, err := strconv.Atoi(item)
	if err != nil || number < 1 || number > maxAttempt {
		return 1, false
	}
	for param := range strings.SplitSeq(params, ";") {
		if p := strings.Trim(param, " "); p == "hedge" || p == "hedge=?1" {
			hedge = true
		}
	}
	return number, hedge
}

func formatAttempt(n int, hedge bool) string {
	text := strconv.Itoa(min(n, maxAttempt))
	if hedge {
		text += ";hedge"
	}
	return text
}
