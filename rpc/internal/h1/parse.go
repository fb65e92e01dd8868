package h1

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/wire"
)

const (
	// maxHead bounds what a Config permits of a head, in bytes.
	maxHead = 8 << 10
	// maxBody bounds a body, in bytes: a request is received in one piece.
	maxBody = wire.MaxPeek - maxHead
	// maxFields bounds how many fields a head has: each is looked for among those before it.
	maxFields = 32
)

var (
	// errIncomplete is returned for the beginning of what may become an ordinary head.
	errIncomplete = errors.New("h1: the head is incomplete")
	// errNotOrdinary is returned for a request that another server must judge.
	errNotOrdinary = errors.New("h1: not an ordinary request")
)

// head is the head of an ordinary request. It does not change once it is complete.
type head struct {
	text   string // all of it; the others are parts of it
	path   string
	host   string
	length int // of the body
	ending ending
	fields fields.List // as in a http.Header: without Host
}

// ending says whether the client wants another response on the connection.
type ending uint8

const (
	keepAlive ending = iota
	closing
)

// parse parses the ordinary head at the beginning of b: a POST of a known path with Content-Length, whose every byte is as RFC 9112 wants
// it sent, in at most limit bytes. It returns errNotOrdinary as soon as a line is anything else, however harmless: what such a request means
// is not decided here.
func parse(b []byte, limit int, known func(path []byte) bool) (*head, error) {
	b = b[:min(len(b), limit)]
	line, at, err := nextLine(b, 0, limit)
	if err != nil {
		return nil, err
	}
	path, ok := bytes.CutPrefix(line, []byte("POST "))
	if ok {
		path, ok = bytes.CutSuffix(path, []byte(" HTTP/1.1"))
	}
	if !ok || !ordinaryPath(path) || !known(path) {
		return nil, errNotOrdinary
	}
	lines := at
	count := 0
	for {
		if line, at, err = nextLine(b, at, limit); err != nil {
			return nil, err
		}
		if len(line) == 0 {
			break
		}
		if count++; count > maxFields || !ordinaryField(line) {
			return nil, errNotOrdinary
		}
	}
	text := string(b[:at])
	h := &head{text: text, path: text[len("POST "):][:len(path)], length: -1}
	if !h.take(text[lines:at-len(crlf)], count) {
		return nil, errNotOrdinary
	}
	return h, nil
}

const crlf = "\r\n"

// nextLine returns the line of b that begins at from, without its end, and where the next line begins. Only CR LF ends a line, and a line has
// no other control character than HTAB (RFC 9112 section 2.2).
func nextLine(b []byte, from, limit int) (line []byte, next int, err error) {
	n := bytes.IndexByte(b[from:], '\n')
	switch {
	case n < 0 && len(b) < limit:
		return nil, 0, errIncomplete
	case n < 1 || b[from+n-1] != '\r':
		return nil, 0, errNotOrdinary
	}
	line = b[from : from+n-1]
	for _, c := range line {
		if c < ' ' && c != '\t' || c > '~' {
			return nil, 0, errNotOrdinary
		}
	}
	return line, from + n + 1, nil
}

// ordinaryPath reports whether a path has two segments of characters that no URL parser changes.
func ordinaryPath(p []byte) bool {
	slashes := 0
	for i, c := range p {
		switch {
		case c == '/':
			slashes++
			if i > 0 && p[i-1] == '/' {
				return false
			}
		case c != '.' && c != '_' && c != '-' && !letterOrDigit(c):
			return false
		}
	}
	return slashes == 2 && p[0] == '/'
}

func letterOrDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// ordinaryField reports whether a line is a token, a colon and a value (RFC 9112 section 5.1). A continuation of the line before does not
// begin with a token.
func ordinaryField(line []byte) bool {
	n := bytes.IndexByte(line, ':')
	for i := range max(n, 0) {
		if c := line[i]; !letterOrDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return n > 0
}

// take parses the lines of the fields; false: they make the request another than an ordinary one.
func (h *head) take(lines string, count int) bool {
	values := make([]string, count)
	list := make([]fields.Values, 0, count)
	for i := range values {
		line, rest, _ := strings.Cut(lines, crlf)
		lines = rest
		name, value, _ := strings.Cut(line, ":")
		name, value = canonical(name), strings.Trim(value, " \t")
		if name == "Host" {
			if h.host != "" || !ordinaryHost(value) {
				return false
			}
			h.host = value
			continue
		}
		if !h.note(name, value) {
			return false
		}
		if same := find(list, name); same != nil {
			same.Values = append(same.Values, value)
			continue
		}
		values[i] = value
		list = append(list, fields.Values{Key: name, Values: values[i : i+1 : i+1]})
	}
	h.fields.Shared = list
	return h.host != "" && h.length >= 0 && find(list, "Content-Type") != nil
}

func find(list []fields.Values, name string) *fields.Values {
	for i := range list {
		if list[i].Key == name {
			return &list[i]
		}
	}
	return nil
}

// note notes what a field says about its request; false: it makes the request another than an ordinary one.
func (h *head) note(name, value string) bool {
	switch name {
	case "Content-Length":
		n, ok := length(value)
		ok = ok && h.length < 0
		h.length = n
		return ok
	case "Content-Type":
		base, _, _ := strings.Cut(value, ";")
		return base == "application/json" || base == "application/proto"
	case "Connection":
		switch {
		case strings.EqualFold(value, "close"):
			h.ending = closing
		case !strings.EqualFold(value, "keep-alive"):
			return false
		}
	case "Transfer-Encoding", "Te", "Trailer", "Expect", "Upgrade", "Http2-Settings", "Proxy-Connection", "Pragma":
		// Pragma stands for Cache-Control in net/http.
		return false
	}
	return true
}

// length parses a Content-Length up to maxBody, without leading zeros.
func length(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n = 10*n + int(s[i]-'0'); n > maxBody {
			return 0, false
		}
	}
	return n, s == "0" || s != "" && s[0] != '0'
}

// ordinaryHost reports whether a Host is a name or address with or without a port.
func ordinaryHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; !letterOrDigit(c) && strings.IndexByte(".-_:[]", c) < 0 {
			return false
		}
	}
	return s != ""
}

// canonical is http.CanonicalHeaderKey, which allocates unless the name is canonical or known to net/http.
func canonical(name string) string {
	for _, known := range [...]string{"Connect-Protocol-Version", "Connect-Timeout-Ms"} {
		if strings.EqualFold(name, known) {
			return known
		}
	}
	return http.CanonicalHeaderKey(name)
}
