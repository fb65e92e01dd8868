package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/tarn-go/tarn/internal/greeting"
	"google.golang.org/grpc/credentials"
)

// errDispatched is returned by credentials that have taken over the connection.
var errDispatched = credentials.ErrConnDispatched

// incoming is an accepted connection whose protocol is known, and which is encrypted if the server has such credentials.
type incoming struct {
	net.Conn
	auth        credentials.AuthInfo
	http1       bool
	prefaceRead bool            // HTTP/2's preface has been read
	deadline    time.Time       // of its set-up
	ctx         context.Context // of the statistics handlers' TagConn
}

// greet runs the handshake and finds out which version of HTTP the client uses. On error nc remains the caller's.
func (s *Server) greet(nc *accepted) (*incoming, error) {
	in := &incoming{Conn: nc.Conn}
	if s.opts.plaintext() {
		conn, found, err := sniff(nc.Conn, s.opts.connTimeout)
		if err != nil {
			return nil, err
		}
		in.Conn, in.http1, in.prefaceRead = conn, found == greeting.HTTP1, found == greeting.HTTP2Read
	}
	in.deadline = time.Now().Add(s.opts.connTimeout)
	if s.opts.creds == nil || in.http1 {
		return in, nil
	}
	return in, s.outside(nc, func() error { return in.secure(s.opts.creds) })
}

// sniff reports whether nc, which has no TLS, uses HTTP/2. The caller must use the connection that it returns
// in place of nc.
func sniff(nc net.Conn, timeout time.Duration) (net.Conn, greeting.Greeting, error) {
	// A connection without deadlines waits as long as its peer does.
	_ = nc.SetReadDeadline(time.Now().Add(timeout))
	conn, found, err := greeting.Of(nc)
	_ = nc.SetReadDeadline(time.Time{})
	return conn, found, err
}

// secure runs the credentials' handshake.
func (in *incoming) secure(creds credentials.TransportCredentials) (err error) {
	raw := in.Conn
	if err := raw.SetDeadline(in.deadline); err != nil {
		return err
	}
	if in.Conn, in.auth, err = creds.ServerHandshake(raw); err != nil {
		return err
	}
	if err := in.Conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if info, ok := in.auth.(credentials.TLSInfo); ok && info.State.NegotiatedProtocol == "http/1.1" {
		in.Conn, in.http1 = &tlsConn{in.Conn, info.State}, true
	}
	return nil
}

// tlsConn is a connection of HTTP/1.1 over TLS. The credentials' own does not show its state, which requests have.
type tlsConn struct {
	net.Conn
	state tls.ConnectionState
}

// ConnectionState is called by net/http.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return c.state }
