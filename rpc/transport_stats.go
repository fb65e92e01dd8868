package rpc

import (
	"log/slog"

	"github.com/tarn-go/tarn/h2"
)

// TransportStats returns the counters of the server's connections: their number, resets, refused streams,
// GOAWAYs by code, and connections that ended because their peer broke the protocol or exceeded a limit, by
// reason. It is safe for concurrent use.
func (s *Server) TransportStats() h2.Stats {
	if s.maker == nil {
		return h2.Stats{} // the options were invalid: Serve reports it
	}
	return s.maker.Stats()
}

// TransportStats returns the counters of the client's connections, as [Server.TransportStats] does; Waiting
// is the calls that wait because the server permits no further stream.
func (cc *ClientConn) TransportStats() h2.Stats { return cc.maker.Stats() }

// Logger makes l log why connections end: at slog.LevelWarn when the peer broke the protocol, exceeded a
// limit, did not answer keepalive, or sent GOAWAY with an error code; at slog.LevelDebug for other GOAWAYs.
// When the server begins to read a connection more slowly, because of [MaxResets] or because it refuses too many of
// its calls, that is logged at slog.LevelWarn. The slog.Handler is called on the goroutine that reads the connection, and nothing
// further is read there while it blocks. Without Logger nothing is logged; see also [Server.TransportStats].
func Logger(l *slog.Logger) ServerOption {
	return serverOption(func(o *serverOptions) { o.log = l })
}

// WithLogger is [Logger] for a client.
func WithLogger(l *slog.Logger) DialOption {
	return dialOption(func(o *dialOptions) { o.log = l })
}
