package hpack

import "strings"

// Blanks says what becomes of spaces and tabs around field values, which RFC 9113
// section 8.2.1 forbids.
type Blanks uint8

const (
	// BlanksRefused makes the list malformed.
	BlanksRefused Blanks = iota
	// BlanksKept takes them as they are: servers send grpc-message with them, and clients metadata.
	BlanksKept
)

// CheckField says what is wrong with a regular field (RFC 9113 section 8.2; its name is a token, RFC 9110 section 5.1, so that
// HTTP/1.1 can forward it); nothing: "".
func CheckField(name, value string, around Blanks) string {
	if name == "" {
		return "a field without a name"
	}
	for i := 0; i < len(name); i++ {
		if !isNameByte(name[i]) {
			return "a field name with characters that are not allowed"
		}
	}
	if !validValue(value) {
		return "a field value with control characters"
	}
	if n := len(value); around == BlanksRefused && n > 0 && (isBlank(value[0]) || isBlank(value[n-1])) {
		return "a field value that begins or ends with a blank"
	}
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return "a field that belongs to a connection"
	case "te":
		if value != "trailers" {
			return "te other than trailers"
		}
	}
	return ""
}

// isNameByte reports whether b may be in a field's name: a character of a token (RFC 9110 section 5.6.2) that is no capital
// letter. Package httpguts has the former, but a program that imports it builds golang.org/x/text.
func isNameByte(b byte) bool {
	return 'a' <= b && b <= 'z' || b == '-' || '0' <= b && b <= '9' || strings.IndexByte("!#$%&'*+.^_`|~", b) >= 0
}

// isToken reports whether v has only the characters of a token, capital letters among them.
func isToken(v string) bool {
	for i := 0; i < len(v); i++ {
		if b := v[i]; !isNameByte(b) && (b < 'A' || b > 'Z') {
			return false
		}
	}
	return true
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

// validValue reports whether v has no control characters other than tabs (RFC 9110
// section 5.5).
func validValue(v string) bool {
	for i := 0; i < len(v); i++ {
		if b := v[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}
