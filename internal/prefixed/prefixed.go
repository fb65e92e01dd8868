// Package prefixed gives back the first bytes of a connection that were read to find out whose it is.
package prefixed

import (
	"crypto/tls"
	"errors"
	"net"
)

// conn is a connection whose first bytes have been read.
type conn struct {
	net.Conn
	prefix []byte
}

// tlsStater is what net/http takes for a connection over TLS.
type tlsStater interface{ ConnectionState() tls.ConnectionState }

// tlsConn is a conn over TLS.
type tlsConn struct {
	*conn
	tlsStater
}

// Conn returns nc with the bytes that have been read of it, which it keeps until they are read again.
func Conn(nc net.Conn, prefix []byte) net.Conn {
	c := &conn{nc, prefix}
	if t, ok := nc.(tlsStater); ok {
		return tlsConn{c, t}
	}
	return c
}

// Under returns the connection that Conn was called with, or nc if it is not Conn's.
func Under(nc net.Conn) net.Conn {
	switch c := nc.(type) {
	case *conn:
		return c.Conn
	case tlsConn:
		return c.Conn
	}
	return nc
}

// Read returns the prefix first.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.prefix) > 0 {
		n := copy(p, c.prefix)
		if c.prefix = c.prefix[n:]; len(c.prefix) == 0 {
			c.prefix = nil
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite closes the writing half, as that of a *net.TCPConn and a *tls.Conn can be closed: net/http does so half a second before it
// closes a connection of which it has not read everything.
func (c *conn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
