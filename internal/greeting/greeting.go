// Package greeting finds out which version of HTTP a connection without TLS begins.
package greeting

import (
	"io"
	"net"
	"strings"

	"github.com/tarn-go/tarn/internal/prefixed"
)

// Greeting says what the first bytes of a connection begin.
type Greeting uint8

const (
	HTTP1     Greeting = iota // anything but the preface of HTTP/2
	HTTP2                     // the preface of HTTP/2, still to be read
	HTTP2Read                 // the preface of HTTP/2, which has been read
)

// preface is what a client of HTTP/2 sends first (RFC 9113 section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Of waits for the first bytes of nc. Where it can it looks at them without reading; otherwise the connection that it
// returns, which is to be used in nc's place, reads them again, if it uses HTTP/1. nc's deadlines bound the wait. An error is nc's,
// and nc is then the caller's to close.
func Of(nc net.Conn) (net.Conn, Greeting, error) {
	var p [len(preface)]byte
	if n, ok := peek(nc, p[:]); ok {
		switch {
		case n == 0:
			return nil, 0, io.EOF
		case !strings.HasPrefix(preface, string(p[:n])):
			return nc, HTTP1, nil
		case n == len(p):
			return nc, HTTP2, nil
		}
	}
	for n := 0; n < len(p); {
		m, err := nc.Read(p[n:])
		n += m
		if n > 0 && !strings.HasPrefix(preface, string(p[:n])) {
			return prefixed.Conn(nc, append([]byte(nil), p[:n]...)), HTTP1, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return nc, HTTP2Read, nil
}
