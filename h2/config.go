package h2

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2/internal/poller"
	"github.com/tarn-go/tarn/wire"
)

// Config sets a connection up. The zero Config is ready to use.
type Config struct {
	// Pool is where memory comes from; nil: tarn.Shared.
	Pool *tarn.Pool
	// MaxFrameSize is the largest frame payload offered to the peer, in bytes:
	// 16384 to 16777215; 0: 1 MiB.
	MaxFrameSize int
	// Window is the receive window a stream starts with, in bytes: 1 to 2^31-1; 0: 256 KiB. It
	// grows, 64 times as large each time and for the whole connection, while it is what
	// limits the peer, up to MaxWindow: Window to 2^31-1; 0: 4 MiB, or Window if that is
	// more. MaxWindow equal to Window keeps it fixed. Where a round trip takes a millisecond
	// or less it grows only to 1 MiB, if that is four times its size or more.
	Window, MaxWindow int
	// MaxRead is what the receive buffer grows to while reads fill it, in bytes: 16384
	// to 1 MiB (wire.MaxRead); 0: 64 KiB.
	MaxRead int
	// ReadModeration permits a connection with 16 streams or more to wait 20 to 50 µs
	// (0.4 µs a stream), with the system's timer slack up to 100 µs, before it reads again,
	// while reads follow each other within 200 µs and bring less than 64 frames. A peer that
	// sends each response with a system call of its own is then read, and sent to, with one
	// system call for many. On plain TCP the system then announces what arrives meanwhile only
	// once it is 16 KiB. Linux only.
	ReadModeration Permission
	// ConnWindow is the receive window of the connection in bytes: 65535 to 2^31-1; 0: 1 MiB, or
	// Window if that is more. It is given back on receipt, so it bounds what is under way; it grows with
	// Window to at least twice that, and by itself to at most twice MaxWindow and to
	// Unread where a round trip is longer than a millisecond and many streams
	// together, none of which fills its own window, are limited by it. MaxWindow
	// equal to Window keeps it fixed.
	ConnWindow int
	// Unread bounds the bytes received and not yet consumed on all streams
	// together: they and what the peer may still send are at most Unread and
	// ConnWindow. 0: 64 MiB.
	Unread int
	// MaxStreams bounds the streams a peer may have open or unreleased on a server;
	// 0: 100 (grpc-go: unlimited). On a client it bounds those this side opens,
	// below the peer's own limit; 0: the peer's.
	MaxStreams int
	// MaxHeaderList bounds a received header list, counted as SETTINGS_MAX_HEADER_LIST_SIZE
	// does (RFC 9113 section 6.5.2), at most 16 MiB; 0: 64 KiB.
	MaxHeaderList int
	// HeaderTimeout bounds the time between the first bytes of a header list and its
	// last ones; then the connection ends with ENHANCE_YOUR_CALM. 0: none.
	HeaderTimeout time.Duration
	// LongHeaders says what a server does with a longer one.
	LongHeaders LongHeaders
	// ExtendedConnect permits requests of method CONNECT with :protocol on a server
	// (RFC 8441), which the connection's SETTINGS announce.
	ExtendedConnect Permission
	// IdleResets permits a client to reset streams that it has not opened. RFC 9113 section 6.4
	// forbids that, but some clients do it when a call is cancelled before its header has
	// left: gRPC C++ 1.51 and what stands on it, for example. Such a reset is ignored and
	// counts as a frame that carries nothing (Limits.Useless). With Deny it ends the
	// connection, and with it the client's other calls, with PROTOCOL_ERROR.
	IdleResets Permission
	// FieldBlanks permits spaces and tabs around the values of a request's fields, which are then
	// taken as they are. RFC 9113 section 8.2.1 forbids them, but gRPC's clients send metadata
	// as programs give it to them. In responses they are always permitted. With Deny the
	// request's stream is reset with PROTOCOL_ERROR.
	FieldBlanks Permission
	// Keepalive sends PINGs on a quiet connection.
	Keepalive Keepalive
	// IdleTimeout ends a connection, as [Conn.Shutdown] does with IdleDebug, on which no stream has been open or unreleased for that long:
	// since the last one was released or, where there has not been any, since a client's connection began to run or a server had the
	// client's first SETTINGS. 0 or less: never.
	IdleTimeout time.Duration
	IdleDebug   string
	// ProbeResets permits a client to ask, by a PING, whether the peer still answers when it resets a stream since whose
	// request nothing has come. Such streams, at most 1,000, count against the peer's limit on streams until something
	// comes, so that a connection whose peer is gone takes no more of them. There is one such PING at a time; a second one
	// before the next HEADERS, which gRPC's servers would count as abuse, is sent when the connection takes no more streams.
	ProbeResets Permission
	// Policy bounds the peer's PINGs (servers).
	Policy PingPolicy
	// Log, if not nil, receives a record for each connection that ends because the peer
	// broke the protocol or a limit, did not answer, or sent GOAWAY with an error code, at
	// slog.LevelWarn (for the first such GOAWAY), and one for each other GOAWAY of a peer at slog.LevelDebug. There is
	// another, at slog.LevelWarn, when a connection begins to be read more slowly because of
	// Limits.Resets, Limits.Replies or Limits.Useless. Its slog.Handler is called on the goroutine
	// that reads the connection, after the streams that the event ends have ended: while
	// it blocks, nothing further is read there, and sending goes on. See also [Maker.Stats].
	Log *slog.Logger
	// Limits bounds what a hostile peer may do.
	Limits Limits

	poller    *poller.Poller // replaces the process's in tests; nil: that
	idleAfter time.Duration  // replaces the constant of that name in tests; 0: the constant
}

// Keepalive configures the PINGs that find out whether a silent peer still answers. A
// zero Time disables them.
type Keepalive struct {
	Time          time.Duration // of silence before a PING
	Timeout       time.Duration // to wait for any frame or part of DATA after the PING; then the connection ends; 0: 20 s
	WithoutStream Permission    // whether to ping while no stream is open
}

// PingPolicy polices the peer's PINGs as gRPC servers do: each one that comes sooner
// than MinTime after the last, or without a stream open unless permitted (then: two
// hours), is a strike. A HEADERS or DATA frame sent clears the strikes, and the PING
// that follows is not checked. The third strike ends the connection with
// ENHANCE_YOUR_CALM and "too_many_pings". Negative MinTime: no policing; 0: 5 minutes.
type PingPolicy struct {
	MinTime       time.Duration
	WithoutStream Permission
}

// Permission allows or denies.
type Permission uint8

const (
	Deny Permission = iota
	Permit
)

// Limits bounds what a peer can make this side do. Zero fields take the defaults.
// A connection that crosses one ends with GOAWAY ENHANCE_YOUR_CALM.
type Limits struct {
	// Resets is how many streams more than it finishes properly a peer may have reset
	// by its own fault, and then 500 a second (CVE-2025-8671); 0: 1000. It is also how
	// many it may reset itself before their handlers start (CVE-2023-44487). Then the
	// connection is read no faster than 5,000 of them a second, and it ends when that
	// has gone on for 20 milliseconds times Resets. The reset of a stream after
	// [Stream.Started], or after the time given to [Stream.SetDeadline], does not
	// count.
	Resets int
	// Replies is how many frames that the peer provoked (acknowledgements, resets)
	// may wait to be written; 0: 1000. Refusals of streams beyond it do not end the
	// connection; it is read more slowly, as with Useless.
	Replies int
	// Useless is how many frames in a row that carry nothing (empty DATA, PRIORITY,
	// SETTINGS, PING, acknowledgements of both that were not asked for, unknown types) are
	// accepted before a useful one; 0: 10000. It is
	// also how many streams a peer may have refused although it keeps to MaxStreams as
	// far as it knows that: handlers of ended streams run on, header lists hold
	// HeaderMemory, or it has not acknowledged SETTINGS. Beyond that the connection is
	// read more slowly, as with Resets.
	Useless int
	// Continuations is how many CONTINUATION frames a header list may take
	// (CVE-2023-45288); 0: 32. Its compressed length may be at most sixteen times
	// MaxHeaderList and 8 KiB, or 128 KiB if that is more, in any case.
	Continuations int
	// Fields is how many fields a header list may have, pseudo-fields not counted;
	// 0: 512. A longer one is treated like one beyond MaxHeaderList.
	Fields int
	// HeaderMemory bounds the header lists of all streams that have not been released,
	// in bytes as MaxHeaderList counts them: a server refuses further streams, and a
	// client resets those whose lists do not fit; 0: 16 MiB.
	HeaderMemory int
	// AllHeaderMemory bounds the same for all connections of a Maker together, of each stream
	// what is beyond 4 KiB: further streams whose lists are longer are refused or reset, in the
	// same way; 0: 128 MiB.
	AllHeaderMemory int
	// Starting is how many streams may be between [Stream.Starting] and
	// [Stream.Started] before the connection is read further; 0: 128.
	Starting int
}

const (
	minMaxFrame     = 16384
	maxMaxFrame     = 1<<24 - 1
	maxWindow       = 1<<31 - 1
	initialWindow   = 65535 // RFC 9113 section 6.9.2
	defaultWindow   = 256 << 10
	defaultGrown    = 4 << 20
	defaultConnWin  = 1 << 20
	defaultUnread   = 64 << 20
	defaultStreams  = 100
	defaultHeaders  = 64 << 10
	defaultMaxFrame = 1 << 20
)

// normal returns c with defaults filled in, or an error that says which field is
// wrong.
func (c Config) normal() (Config, error) {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Pool == nil {
		c.Pool = tarn.Shared()
	}
	def(&c.MaxFrameSize, defaultMaxFrame)
	def(&c.Window, defaultWindow)
	def(&c.MaxWindow, max(defaultGrown, c.Window))
	def(&c.MaxRead, wire.MaxPeek)
	def(&c.ConnWindow, max(defaultConnWin, c.Window))
	def(&c.Unread, defaultUnread)
	def(&c.MaxHeaderList, defaultHeaders)
	def(&c.Limits.Resets, 1000)
	def(&c.Limits.Replies, 1000)
	def(&c.Limits.Useless, 10000)
	def(&c.Limits.Continuations, 32)
	def(&c.Limits.Starting, 128)
	def(&c.Limits.Fields, 512)
	def(&c.Limits.HeaderMemory, 16<<20)
	def(&c.Limits.AllHeaderMemory, 128<<20)
	if c.poller == nil {
		c.poller = poller.Shared()
	}
	if c.idleAfter == 0 {
		c.idleAfter = idleAfter
	}
	if c.Keepalive.Timeout == 0 {
		c.Keepalive.Timeout = 20 * time.Second
	}
	if c.Policy.MinTime == 0 {
		c.Policy.MinTime = 5 * time.Minute
	}
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{
		{"MaxFrameSize", c.MaxFrameSize, minMaxFrame, maxMaxFrame},
		{"Window", c.Window, 1, maxWindow},
		{"MaxWindow", c.MaxWindow, c.Window, maxWindow},
		{"MaxRead", c.MaxRead, minMaxFrame, wire.MaxRead},
		{"ConnWindow", c.ConnWindow, initialWindow, maxWindow},
		{"Unread", c.Unread, 1, math.MaxInt},
		{"MaxStreams", c.MaxStreams, 0, maxWindow},
		{"MaxHeaderList", c.MaxHeaderList, 1, 16 << 20},
		{"Limits.Resets", c.Limits.Resets, 1, maxWindow},
		{"Limits.Replies", c.Limits.Replies, 1, maxWindow},
		{"Limits.Useless", c.Limits.Useless, 1, maxWindow},
		{"Limits.Continuations", c.Limits.Continuations, 1, maxWindow},
		{"Limits.Fields", c.Limits.Fields, 1, maxWindow},
		{"Limits.HeaderMemory", c.Limits.HeaderMemory, 1, math.MaxInt},
		{"Limits.AllHeaderMemory", c.Limits.AllHeaderMemory, 1, math.MaxInt},
		{"Limits.Starting", c.Limits.Starting, 1, maxWindow},
	} {
		if f.v < f.lo || f.v > f.hi {
			return c, fmt.Errorf("h2: Config.%s is %d, outside %d to %d", f.name, f.v, f.lo, f.hi)
		}
	}
	return c, nil
}

// LongHeaders says what a server does with a request whose header list exceeds
// Config.MaxHeaderList.
type LongHeaders uint8

const (
	// ResetLong resets the stream with ENHANCE_YOUR_CALM. The handler is not called.
	ResetLong LongHeaders = iota
	// DeliverLong delivers the pseudo-fields that fit, with Header.Truncated set, so that
	// the handler can answer 431.
	DeliverLong
)
