package h2

import "github.com/tarn-go/tarn"

// Ending says whether something is the last of its direction of a stream
// (END_STREAM, RFC 9113 section 5.1).
type Ending uint8

const (
	More Ending = iota // more follows
	End                // this is the last
)

// Handler receives what the peer sends. Its methods are called on the goroutine
// that runs [Conn.Run], one at a time, and must not block: of this package they
// may call anything except Write, Open with a context, and Ping. While one runs, no frame
// of the connection is read, not even one that another stream waits for.
type Handler interface {
	// OnHeaders delivers a header list: on a server first the request, with a new
	// stream; on a client first the response (informational ones go to an
	// [InformationalHandler], or are skipped); then, in either case with End, trailers.
	OnHeaders(s *Stream, h *Header, e Ending)

	// OnData delivers DATA and takes ownership of b, which may be empty when e is
	// End. What comes is a piece as it arrived: one frame may come in several
	// pieces. The handler calls s.Consumed when the application has taken them.
	OnData(s *Stream, b tarn.Buffer, e Ending)

	// OnReset is called when the stream has ended before both sides had finished:
	// reset by the peer (*StreamError, Fault Told), broken by the peer (*StreamError,
	// Fault Peer), never processed because of GOAWAY (*GoAwayError), or its connection
	// has ended (*ConnError, ErrClosed, or the network's error). It is called at most
	// once, is the last call for s, and may come after End when this side was still
	// sending. It is not called for streams that were released, nor for those that
	// this side reset before the connection failed; every other stream of a connection
	// that fails gets it.
	OnReset(s *Stream, err error)
}

// Lander is a Handler that receives some DATA in memory of its own, so that a
// large message is read from the connection to its final place.
type Lander interface {
	// Land is called when n > 0 bytes of DATA are due. It returns where the next of
	// them go (at most n are stored), or nil to have them by OnData. The memory is
	// used until Landed.
	Land(s *Stream, n int) []byte
	// Landed says that the first n > 0 bytes of what Land returned are filled. It is
	// not called when the connection breaks meanwhile; OnReset follows then. Nor is it
	// called when this side has reset or released the stream meanwhile; the memory is
	// out of use when the next method is called.
	Landed(s *Stream, n int, e Ending)
}

// ConnHandler is a Handler that also receives events of its connection. Its methods are
// called like those of Handler.
type ConnHandler interface {
	// OnSettings is called when the peer's first SETTINGS are in force, which is
	// when a client may call the connection ready.
	OnSettings(c *Conn)
	// OnGoAway is called for each GOAWAY of the peer, before OnReset for the
	// streams it refuses. No stream can be opened any more.
	OnGoAway(c *Conn, err *GoAwayError)
	// OnIdle is called when the last stream has ended and been released. Unlike the
	// others it may be called on any goroutine, and must be quick.
	OnIdle(c *Conn)
}

// InformationalHandler is a client's Handler that receives informational responses
// (1xx, RFC 9113 section 8.1). Without it they are skipped, and those of a stream that
// together are longer than MaxHeaderList end it with PROTOCOL_ERROR.
type InformationalHandler interface {
	// OnInformational delivers one informational response. It is called like
	// OnHeaders, any number of times before it. A 101 never arrives: HTTP/2 has none
	// (RFC 9113 section 8.6), so it ends the stream with PROTOCOL_ERROR.
	OnInformational(s *Stream, h *Header)
}

// LimitHandler is a client's Handler that is informed how many streams it may open.
type LimitHandler interface {
	// OnStreamLimit is called when [Conn.StreamLimit] has changed because of the peer's
	// SETTINGS, or has grown because something has come (Config.ProbeResets). It is called
	// like the methods of Handler.
	OnStreamLimit(c *Conn)
}

// FaultHandler is a Handler that counts the stream errors that peers cause.
type FaultHandler interface {
	// OnStreamFault is called when a stream is reset because of what the peer did on it (Fault
	// Peer): before OnReset, and also for requests that OnHeaders was not called for. It is
	// called like the methods of Handler.
	OnStreamFault(err *StreamError)
}

// BatchHandler is a Handler that wakes other goroutines no more often than needed.
type BatchHandler interface {
	// OnBatchEnd is called when everything that has arrived has been delivered, before
	// the connection waits for more or ends. It is called like the methods of Handler.
	OnBatchEnd()
}
