package header

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// ErrTimeout is returned when a peer's grpc-timeout is not 1 to 8 digits followed by one of H, M, S, m, u, n.
var ErrTimeout = errors.New("rpc: peer sent a malformed grpc-timeout")

// maxTimeoutDigits is the most digits the protocol allows in grpc-timeout.
const maxTimeoutDigits = 8

// maxTimeoutValue is the largest number that fits maxTimeoutDigits.
const maxTimeoutValue = 99999999

// timeoutUnits are tried from the finest, so that the value is as precise as eight digits allow.
var timeoutUnits = [...]struct {
	size time.Duration
	name byte
}{
	{time.Nanosecond, 'n'},
	{time.Microsecond, 'u'},
	{time.Millisecond, 'm'},
	{time.Second, 'S'},
	{time.Minute, 'M'},
	{time.Hour, 'H'},
}

// AppendTimeout appends d to dst in the form of grpc-timeout. A d of 0 or less becomes "0n". The value is
// rounded up, never down: a server must not give up before its client does.
func AppendTimeout(dst []byte, d time.Duration) []byte {
	if d <= 0 {
		return append(dst, '0', 'n')
	}
	for _, u := range timeoutUnits {
		n := int64(d / u.size)
		if d%u.size > 0 {
			n++
		}
		if n <= maxTimeoutValue {
			return append(strconv.AppendInt(dst, n, 10), u.name)
		}
	}
	// Not reachable with int64 nanoseconds (2.6 million hours).
	return append(dst, '9', '9', '9', '9', '9', '9', '9', '9', 'H')
}

// ParseTimeout parses a grpc-timeout. A value too large for time.Duration becomes the largest Duration; zero
// is a timeout that has already passed. It returns ErrTimeout for anything else.
func ParseTimeout(s string) (time.Duration, error) {
	if len(s) < 2 || len(s) > maxTimeoutDigits+1 {
		return 0, ErrTimeout
	}
	unit := time.Duration(0)
	for _, u := range timeoutUnits {
		if u.name == s[len(s)-1] {
			unit = u.size
		}
	}
	if unit == 0 {
		return 0, ErrTimeout
	}
	var n int64
	for i := range len(s) - 1 {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, ErrTimeout
		}
		n = n*10 + int64(c-'0')
	}
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, nil
}
