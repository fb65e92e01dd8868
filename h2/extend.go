package h2

// What package h2http needs beyond gRPC's use of HTTP/2.

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

// PrefaceRead is called on a server's connection, before Run or Start, when the caller
// has read the client's preface from the net.Conn.
func (c *Conn) PrefaceRead() { c.prefaceRead = true }

// PeerExtendedConnect reports whether the peer's SETTINGS permit extended CONNECT
// (RFC 8441 section 3). Before the first SETTINGS it is false.
func (c *Conn) PeerExtendedConnect() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer.extendedConnect
}

// PeerHeaderList returns the length of the header list that the peer's SETTINGS
// permit, in bytes as RFC 9113 section 6.5.2 counts them; 0: it has named no limit.
func (c *Conn) PeerHeaderList() int { return int(c.peer.headerList.Load()) }

// IgnoreLength ends the check of the DATA received on s against content-length. It
// is for the answer to a HEAD request, whose content-length describes content that
// is not sent. It must be called within the first OnHeaders for s.
func (s *Stream) IgnoreLength() { s.length = -1 }

// badConnect says what is wrong with the pseudo-fields of a request as far as
// CONNECT is concerned (RFC 9113 section 8.5, RFC 8441 section 4); nothing: "".
func badConnect(h *Header, extended Permission) string {
	switch {
	case h.Protocol != "" && (extended == Deny || h.Method != "CONNECT"):
		return ":protocol that is not permitted"
	case h.Method == "CONNECT" && h.Protocol == "" && (h.Path != "" || h.Scheme != "" || h.Authority == ""):
		return "CONNECT with :scheme or :path, or without :authority"
	case (h.Method != "CONNECT" || h.Protocol != "") && (h.Path == "" || h.Scheme == ""):
		return "a request without its pseudo-fields"
	}
	return ""
}
