package h2http

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// Config holds what net/http has no setting for. The zero Config, and a nil *Config,
// are ready to use.
type Config struct {
	// Pool is where the memory of bodies and frames comes from; nil: tarn.Shared.
	Pool *tarn.Pool
	// Limits bounds what a hostile peer may do; zero fields take package h2's
	// defaults.
	Limits h2.Limits
	// ExtendedConnect permits requests of method CONNECT with :protocol (RFC 8441) on
	// a server. A browser to which this is announced opens WebSockets with it rather than
	// with HTTP/1.1's Upgrade, so it is denied by default, as in net/http. The protocol is
	// in the request's Header[":protocol"].
	ExtendedConnect h2.Permission
}

func (c *Config) orDefault() Config {
	if c == nil {
		return Config{}
	}
	return *c
}

// perField and typicalFields are what net/http adds to MaxHeaderBytes, in bytes:
// HTTP/2 counts 32 for each field (RFC 9113 section 6.5.2).
const (
	perField      = 32
	typicalFields = 10

	defaultMaxStreams  = 250              // net/http's
	defaultPingTimeout = 15 * time.Second // net/http's
	minFrame           = 16 << 10         // RFC 9113 section 4.2
	maxFrame           = 1<<24 - 1
	firstWindow        = 352 << 10 // docs/evidence/http.md has what others take
	firstConnWindow    = 1 << 20
	mostWindow         = 16 << 20
	mostRead           = 256 << 10
	mostUnread         = 32 << 20 // of all streams of a server's connection: two of the largest windows
	unreadResponses    = 1 << 30  // of a client's, as in net/http: a program may leave many responses unread, and read another first
	minConnWindow      = 65535    // RFC 9113 section 6.9.2
	tableSize          = 4096
	maxHeaderList      = 16 << 20
	spareContinuations = 32  // h2's default
	headerValues       = 500 // http.DefaultMaxHeaderValueCount of Go 1.27
)

// h2Config translates the settings of an http.Server or http.Transport. An error names
// the setting that is not supported.
func (c Config) h2Config(conf *http.HTTP2Config, maxHeaderBytes int64) (h2.Config, error) {
	out := h2.Config{
		Pool:            c.Pool,
		Limits:          c.Limits,
		ExtendedConnect: c.ExtendedConnect,
		Policy:          h2.PingPolicy{MinTime: -1},
		MaxHeaderList:   int(min(maxHeaderBytes+perField*typicalFields, maxHeaderList)),
		Window:          firstWindow,
		MaxWindow:       mostWindow,
		MaxRead:         mostRead,
	}
	if conf == nil {
		conf = new(http.HTTP2Config)
	}
	switch {
	case conf.MaxDecoderHeaderTableSize != 0 && conf.MaxDecoderHeaderTableSize != tableSize:
		return out, fmt.Errorf("h2http: HTTP2Config.MaxDecoderHeaderTableSize is %d; only %d is possible", conf.MaxDecoderHeaderTableSize, tableSize)
	case conf.MaxEncoderHeaderTableSize != 0 && conf.MaxEncoderHeaderTableSize < tableSize:
		return out, fmt.Errorf("h2http: HTTP2Config.MaxEncoderHeaderTableSize is %d; the table takes %d", conf.MaxEncoderHeaderTableSize, tableSize)
	}
	if out.Limits.Continuations == 0 {
		// A peer that keeps to 16 KiB needs so many for the longest list that it may send.
		out.Limits.Continuations = spareContinuations + out.MaxHeaderList/minFrame
	}
	if conf.MaxReadFrameSize >= minFrame && conf.MaxReadFrameSize <= maxFrame {
		out.MaxFrameSize = conf.MaxReadFrameSize
	}
	if n := min(conf.MaxReceiveBufferPerStream, math.MaxInt32); n > 0 {
		out.Window, out.MaxWindow = min(n, firstWindow), n
	}
	if n := conf.MaxReceiveBufferPerConnection; n >= minConnWindow {
		// Package h2 gives the connection's window back on receipt while no more than
		// Unread bytes lie unread, so the two add up to what can be held.
		out.ConnWindow = max(minConnWindow, min(n/2, firstConnWindow))
		out.Unread = max(n-out.ConnWindow, 1)
		out.Window = min(out.Window, out.ConnWindow)
		out.MaxWindow = max(out.Window, min(out.MaxWindow, out.ConnWindow/2)) // beyond it ConnWindow would grow
	}
	if conf.SendPingTimeout > 0 {
		out.Keepalive = h2.Keepalive{Time: conf.SendPingTimeout, Timeout: conf.PingTimeout, WithoutStream: h2.Permit}
		if conf.PingTimeout == 0 {
			out.Keepalive.Timeout = defaultPingTimeout
		}
	}
	return out, nil
}
