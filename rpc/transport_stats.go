package rpc

import (
	"log/slog"

	"github.com/tarn-go/tarn/h2"
)

// TransportStats returns what was counted on the server's connections: how many there
// are, resets, refused streams, GOAWAYs by code, and connections that ended because
// their peer broke the protocol or crossed a limit, by reason. It is safe for
// concurrent use.
func (s *Server) TransportStats() h2.Stats {
	if s.maker == nil {
		return h2.Stats{} // the options were wrong: Serve says so
	}
	return s.maker.Stats()
}

// TransportStats returns what was counted on the client's connections, as
// [Server.TransportStats] does; Waiting is the calls that wait because the server
// permits no further stream.
func (cc *ClientConn) TransportStats() h2.Stats { return cc.maker.Stats() }

// Logger has l told why connections end: at slog.LevelWarn when the peer broke the
// protocol, crossed a limit, did not answer keepalive, or said GOAWAY with an error
// code; at slog.LevelDebug of other GOAWAYs. Without it nothing is logged; see also
// [Server.TransportStats].
func Logger(l *slog.Logger) ServerOption {
	return serverOption(func(o *serverOptions) { o.log = l })
}

// WithLogger is [Logger] for a client.
func WithLogger(l *slog.Logger) DialOption {
	return dialOption(func(o *dialOptions) { o.log = l })
}
