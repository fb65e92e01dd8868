package h2

import (
	"errors"
	"fmt"
)

// Code is an HTTP/2 error code (RFC 9113 section 7).
type Code uint32

const (
	NoError            Code = 0x0
	ProtocolError      Code = 0x1
	InternalError      Code = 0x2
	FlowControlError   Code = 0x3
	SettingsTimeout    Code = 0x4
	StreamClosed       Code = 0x5
	FrameSizeError     Code = 0x6
	RefusedStream      Code = 0x7
	Cancel             Code = 0x8
	CompressionError   Code = 0x9
	ConnectError       Code = 0xa
	EnhanceYourCalm    Code = 0xb
	InadequateSecurity Code = 0xc
	HTTP11Required     Code = 0xd
)

var codeNames = [...]string{"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR",
	"SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL",
	"COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"}

// String returns the name that RFC 9113 gives the code.
func (c Code) String() string {
	if c < Code(len(codeNames)) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %#x", uint32(c))
}

// Fault says who caused an error.
type Fault uint8

const (
	Local Fault = iota // this side ended it itself
	Peer               // the peer broke the protocol or a limit
	Told               // the peer ended it: it sent the frame with the code
)

// ConnError ends a connection. When the peer has sent GOAWAY before, Fault is Told,
// and Code and Reason are those of its GOAWAY: streams that it may have processed
// end with that, the others with a *GoAwayError.
type ConnError struct {
	Code   Code
	Fault  Fault
	Reason string
	Err    error // the error of the net.Conn; nil: there was none
}

// Unwrap returns the error of the net.Conn.
func (e *ConnError) Unwrap() error { return e.Err }

// Error names the code, whose fault it is, and the reason.
func (e *ConnError) Error() string {
	s := "h2: connection ended" + e.Fault.by() + e.Code.String() + sep(e.Reason)
	if e.Err != nil {
		s += sep(e.Err.Error())
	}
	return s
}

// StreamError ends one stream; the connection stays open.
type StreamError struct {
	Code   Code
	Fault  Fault
	Reason string
}

// Error names the code, whose fault it is, and the reason.
func (e *StreamError) Error() string {
	return "h2: stream reset" + e.Fault.by() + e.Code.String() + sep(e.Reason)
}

// GoAwayError is the content of the peer's GOAWAY. A stream that ends with it was not
// processed by the peer and may be tried again elsewhere.
type GoAwayError struct {
	Code  Code
	Last  uint32 // the last stream that the peer may have processed
	Debug string // at most 1 KiB is kept
}

// Error names the code and the peer's debug data.
func (e *GoAwayError) Error() string {
	return "h2: the peer is going away: " + e.Code.String() + sep(e.Debug)
}

func (f Fault) by() string {
	switch f {
	case Peer:
		return ", the peer being at fault: "
	case Told:
		return " by the peer: "
	}
	return " by this side: "
}

func sep(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

var (
	// ErrClosed is returned for use of a connection that this side has closed.
	ErrClosed = errors.New("h2: the connection is closed")
	// ErrStreamDone is returned for writing on a stream that has been reset by this
	// side or has sent its End.
	ErrStreamDone = errors.New("h2: this side of the stream has ended")
	// ErrStreamLimit is returned by Open with a nil context or Out.NoWait when the
	// peer permits no further stream now.
	ErrStreamLimit = errors.New("h2: the peer's limit on concurrent streams is reached")
	// ErrWouldBlock is returned by Post when the flow-control windows do not cover
	// its DATA; nothing was sent.
	ErrWouldBlock = errors.New("h2: the peer's window does not cover the data")
	// ErrNoStreamIDs is returned by Open when the connection has used them all.
	ErrNoStreamIDs = errors.New("h2: the connection's stream numbers are used up")
)
