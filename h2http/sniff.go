package h2http

import (
	"io"
	"net"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/prefixed"
)

// found says which protocol a connection's first bytes begin.
type found uint8

const (
	http1     found = iota
	http2           // the preface is still to be read
	http2Read       // the preface has been read
)

// sniff waits for a connection's first bytes and recognises HTTP/2 by its preface. Where it
// can it looks at them without reading; otherwise the connection it returns reads them
// again, if it uses HTTP/1.
func sniff(nc net.Conn) (net.Conn, found, error) {
	var p [len(h2.Preface)]byte
	if n, ok := peekSocket(nc, p[:]); ok {
		switch {
		case n == 0:
			return nil, 0, io.EOF
		case !strings.HasPrefix(h2.Preface, string(p[:n])):
			return nc, http1, nil
		case n == len(p):
			return nc, http2, nil
		}
	}
	for n := 0; n < len(p); {
		m, err := nc.Read(p[n:])
		n += m
		if n > 0 && !strings.HasPrefix(h2.Preface, string(p[:n])) {
			return prefixed.Conn(nc, append([]byte(nil), p[:n]...)), http1, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return nc, http2Read, nil
}
