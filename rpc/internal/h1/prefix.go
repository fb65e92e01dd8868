package h1

import (
	"bytes"
	"crypto/tls"
	"net"
)

// prefixConn is a connection whose first bytes have been read.
type prefixConn struct {
	net.Conn
	prefix []byte
}

// tlsStater is what net/http takes for a connection over TLS.
type tlsStater interface{ ConnectionState() tls.ConnectionState }

// prefixTLSConn is a prefixConn over TLS.
type prefixTLSConn struct {
	*prefixConn
	tlsStater
}

// prefixed returns nc with the bytes that have been read of it.
func prefixed(nc net.Conn, prefix []byte) net.Conn {
	if len(prefix) == 0 {
		return nc
	}
	c := &prefixConn{nc, bytes.Clone(prefix)}
	if t, ok := nc.(tlsStater); ok {
		return prefixTLSConn{c, t}
	}
	return c
}

func (c *prefixConn) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		if c.prefix = c.prefix[n:]; len(c.prefix) == 0 {
			c.prefix = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}
