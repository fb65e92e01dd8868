package header

import (
	"strconv"

	"google.golang.org/grpc/codes"
)

// FromHTTP maps an HTTP status received without grpc-status to a code, by the table of "HTTP to gRPC Status
// Code Mapping".
func FromHTTP(status int) codes.Code {
	switch status {
	case 400:
		return codes.Internal
	case 401:
		return codes.Unauthenticated
	case 403:
		return codes.PermissionDenied
	case 404:
		return codes.Unimplemented
	case 429, 502, 503, 504:
		return codes.Unavailable
	}
	return codes.Unknown
}

// HTTP/2 error codes (RFC 9113, section 7) as gRPC needs them.
const (
	rstNoError            = 0x0
	rstRefusedStream      = 0x7
	rstCancel             = 0x8
	rstEnhanceYourCalm    = 0xb
	rstInadequateSecurity = 0xc
)

// FromReset maps the error code of a RST_STREAM to a code, by the table
// "Errors" of the protocol. An unknown error code is INTERNAL.
func FromReset(code uint32) codes.Code {
	switch code {
	case rstRefusedStream:
		return codes.Unavailable
	case rstCancel:
		return codes.Canceled
	case rstEnhanceYourCalm:
		return codes.ResourceExhausted
	case rstInadequateSecurity:
		return codes.PermissionDenied
	}
	return codes.Internal
}

// maxStatusDigits bounds grpc-status: codes are a 32-bit number.
const maxStatusDigits = 10

// ParseStatus parses grpc-status. Numbers without a name are kept, as in grpc-go; ok is false for text that
// is not a 32-bit number.
func ParseStatus(s string) (codes.Code, bool) {
	if s == "0" {
		return codes.OK, true
	}
	if s == "" || len(s) > maxStatusDigits {
		return codes.Unknown, false
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return codes.Unknown, false
	}
	return codes.Code(n), true
}

// statusText holds the text of the named codes.
var statusText = [...]string{
	"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
}

// StatusText returns grpc-status for c, without allocating for the named codes.
func StatusText(c codes.Code) string {
	if c < codes.Code(len(statusText)) {
		return statusText[c]
	}
	return strconv.FormatUint(uint64(c), 10)
}
