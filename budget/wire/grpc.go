package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// GRPC is the form of gRPC's grpc-timeout: one to eight ASCII digits and a unit,
// H, M, S, m, u or n (gRPC over HTTP/2, "Requests" in PROTOCOL-HTTP2.md). Hours
// beyond what a Duration holds are no limit. Format writes the finest unit that
// eight digits suffice for, as grpc-go does, but rounds down.
func GRPC() Form { return form(grpcTimeout, "grpc-timeout") }

// maxGRPC is the largest number that grpc-timeout may hold.
const maxGRPC = 99_999_999

var grpcUnits = [...]struct {
	letter byte
	size   time.Duration
}{{'n', 1}, {'u', time.Microsecond}, {'m', time.Millisecond}, {'S', time.Second}, {'M', time.Minute}, {'H', time.Hour}}

func parseGRPC(s string) (left time.Duration, limited bool, err error) {
	name := grpcTimeout.String()
	if len(s) < 2 {
		return 0, false, malformed(name, s, "not a number and a unit")
	}
	digits, letter := s[:len(s)-1], s[len(s)-1]
	if !strings.ContainsRune("numSMH", rune(letter)) {
		return 0, false, malformed(name, s, "no unit of H, M, S, m, u, n at its end")
	}
	if why := notDigits(digits); why != "" {
		return 0, false, malformed(name, s, why)
	}
	if len(digits) > 8 {
		return 0, false, malformed(name, s, "more than 8 digits")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, false, malformed(name, s, err.Error())
	}
	for _, u := range grpcUnits {
		if u.letter == letter && n <= math.MaxInt64/int64(u.size) { // checked before it is multiplied
			return time.Duration(n) * u.size, true, nil
		}
	}
	return 0, false, nil
}

// formatGRPC writes left, which is at least a millisecond.
func formatGRPC(left time.Duration) string {
	for _, u := range grpcUnits {
		if n := int64(left / u.size); n <= maxGRPC {
			return string(append(strconv.AppendInt(nil, n, 10), u.letter))
		}
	}
	panic("wire: a Duration has less hours than eight digits") // 2,562,047
}
