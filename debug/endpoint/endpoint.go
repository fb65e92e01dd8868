// Package endpoint has the types in which a server or a client reports its state to the debug page: its
// connections, its calls, and what ended them. Packages rpc and h2http fill them in, package debug shows
// them; so neither imports the other. It imports the standard library alone.
package endpoint

import "time"

// Source is a server or a client. Endpoint is called from several goroutines at once, at most twice a
// second for each page, and returns values that its caller may keep.
type Source interface{ Endpoint() State }

// Observer is a Source that counts calls only if something shows them.
type Observer interface {
	Source
	// Observe has calls counted from now on. A debug.Registry calls it for what is added to it.
	Observe()
}

// Bounds on what a State lists.
const (
	MaxConns   = 64 // the busiest
	MaxMethods = 64 // the most called
	MaxWaits   = 64 // the longest
)

// State is what an endpoint is doing at one time. Counters only grow.
type State struct {
	Kind string `json:"kind"` // "gRPC server", "gRPC client", "HTTP server", "HTTP client", "SMB session"
	Name string `json:"name"` // the target or the address; made unique by the page

	Conns   int   `json:"connections"`
	Streams int   `json:"streams"` // on the connections listed
	Waiting int64 `json:"waiting"` // calls that wait because the peer permits no further stream

	ResetsSent        uint64            `json:"resets_sent"`
	ResetsReceived    uint64            `json:"resets_received"`
	Refused           uint64            `json:"refused"` // streams of peers answered with REFUSED_STREAM
	KeepaliveTimeouts uint64            `json:"keepalive_timeouts"`
	GoAwaysSent       map[string]uint64 `json:"goaways_sent,omitempty"`     // by code
	GoAwaysReceived   map[string]uint64 `json:"goaways_received,omitempty"` // by code
	Ended             map[string]uint64 `json:"ended,omitempty"`            // connections that crossed a limit or broke the protocol, by reason

	Connections []Conn `json:"connection_list,omitempty"`

	// Observed says that calls are counted and listed below.
	Observed bool     `json:"observed"`
	Calls    uint64   `json:"calls"`   // begun
	Done     uint64   `json:"done"`    // ended
	Failed   uint64   `json:"failed"`  // ended with a Failure
	Active   int64    `json:"active"`  // in progress
	Seconds  float64  `json:"seconds"` // that ended calls took, added up
	Methods  []Method `json:"methods,omitempty"`
	More     int      `json:"more_methods,omitempty"` // methods left out
	Waits    []Wait   `json:"waits,omitempty"`

	// Session is of an SMB session, of which nothing else above has a value besides Kind, Name and Conns.
	Session *Session `json:"session,omitempty"`
}

// Session is an SMB session.
type Session struct {
	Server     string        `json:"server"`               // the address in use
	Servers    []string      `json:"servers"`              // those that can be used
	Dialect    string        `json:"dialect,omitempty"`    // of the last connection
	Protection string        `json:"protection,omitempty"` // of every message: "none", or how it is signed or encrypted
	Closed     bool          `json:"closed"`               // by the program
	Age        time.Duration `json:"age_ns"`               // of the connection; 0: there is none
	InFlight   int           `json:"in_flight"`            // requests that the server has not answered
	Credits    int           `json:"credits"`              // that the server has granted and no request uses
	Waiting    int           `json:"waiting"`              // calls that wait for credits
	Received   uint64        `json:"received"`             // bytes, on all its connections
	Sent       uint64        `json:"sent"`                 // bytes, on all its connections
	Reconnects uint64        `json:"reconnects"`           // connections that have replaced a lost one
}

// Conn is one connection.
type Conn struct {
	Peer         string        `json:"peer"`
	Age          time.Duration `json:"age_ns"`
	Streams      int           `json:"streams"`
	Blocked      int           `json:"blocked"`       // streams whose data waits for a window or for its turn
	SendWindow   int64         `json:"send_window"`   // bytes that this side may send
	RecvWindow   int64         `json:"recv_window"`   // bytes that the peer may send
	StreamWindow int           `json:"stream_window"` // bytes that the peer may send on a new stream
	Unread       int           `json:"unread"`        // bytes received and not consumed
	RTT          time.Duration `json:"rtt_ns"`        // 0: not known
	Draining     bool          `json:"draining"`
}

// Method is the calls of one method.
type Method struct {
	Name    string            `json:"name"`
	Started uint64            `json:"started"`
	Active  int64             `json:"active"`
	Codes   map[string]uint64 `json:"codes"`   // calls that ended, by status code; of HTTP by class, see Failure
	Seconds float64           `json:"seconds"` // that ended calls took, added up
	P50     float64           `json:"p50_seconds"`
	P99     float64           `json:"p99_seconds"` // both over all calls
	Minute  Recent            `json:"last_minute"`
	Slowest *Slow             `json:"slowest,omitempty"` // of the last minute; nil: none has ended in it, or it is not known

	// Durations has how many calls have taken less than each of Bounds; nil: it is not known.
	Durations []uint64 `json:"durations,omitempty"`
}

// Bounds returns the upper bounds of a histogram of calls: the powers of two of nanoseconds from 131 µs to 34 s.
func Bounds() []time.Duration {
	bounds := make([]time.Duration, 0, 19)
	for d := time.Duration(1 << 17); d <= 1<<35; d *= 2 {
		bounds = append(bounds, d)
	}
	return bounds
}

// Slow is one call.
type Slow struct {
	Seconds float64 `json:"seconds"`
	Trace   string  `json:"trace,omitempty"` // the identity of its trace, of the request's field traceparent (W3C Trace Context)
}

// Recent is the calls of one method that ended in the last minute, up to 70 seconds.
type Recent struct {
	Ended uint64  `json:"ended"`
	P50   float64 `json:"p50_seconds"`
	P99   float64 `json:"p99_seconds"`
}

// Ended is how many calls have ended.
func (m Method) Ended() uint64 {
	n := uint64(0)
	for _, c := range m.Codes {
		n += c
	}
	return n
}

// Failed is how many calls have ended with a Failure.
func (m Method) Failed() uint64 {
	n := uint64(0)
	for code, c := range m.Codes {
		if Failure(code) {
			n += c
		}
	}
	return n
}

// Failure reports whether a code of Method.Codes is that of a call that failed: every status of gRPC but OK, and of HTTP "5xx", "reset" (the
// stream ended before the response did) and "error" (a client got no response). A client's mistake, "4xx", is none.
func Failure(code string) bool {
	switch code {
	case "OK", "2xx", "3xx", "4xx":
		return false
	}
	return true
}

// Wait is the calls of one method that wait for the same thing.
type Wait struct {
	Method string        `json:"method"`
	For    string        `json:"for"`
	Calls  int           `json:"calls"`
	Oldest time.Duration `json:"oldest_ns"` // the age of the oldest of these calls
}
