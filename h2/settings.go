package h2

import (
	"encoding/binary"
	"math"
	"sync/atomic"
)

// peer is what the peer has said of itself, by SETTINGS and otherwise; guarded by Conn.mu, except headerList.
type peer struct {
	window          int64         // what a new stream may send: INITIAL_WINDOW_SIZE
	conn            int64         // what the connection may send
	maxFrame        int           // MAX_FRAME_SIZE
	maxStreams      int           // client: how many streams may be open
	headerList      atomic.Uint32 // MAX_HEADER_LIST_SIZE; 0: none
	greeted         bool          // the first SETTINGS have come
	extendedConnect bool          // it permits extended CONNECT
	signals         signals       // what it has said about priorities
	tightened       uint32        // the batch with the last acknowledgement of SETTINGS that frames of earlier batches may break
}

func (p *peer) init() {
	p.window, p.conn = initialWindow, initialWindow
	p.maxFrame = minMaxFrame
	p.maxStreams = assumedStreams
}

// onSettings takes a SETTINGS (RFC 9113 section 6.5).
func (c *Conn) onSettings(f frame) error {
	switch {
	case f.id != 0:
		return c.fault(ProtocolError, "SETTINGS on a stream")
	case f.has(flagAck) && f.length != 0, f.length%settingLen != 0:
		return c.fault(FrameSizeError, "SETTINGS of an impossible length")
	case f.length > maxSettings*settingLen:
		return c.fault(EnhanceYourCalm, "too many settings")
	}
	p, err := c.peek(f.length)
	if err != nil {
		return err
	}
	c.lock()
	limit := c.peer.maxStreams
	first, err := c.settings(f, p)
	limited := limit != c.peer.maxStreams
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if first && c.events != nil {
		c.events.OnSettings(c)
	}
	if limited {
		c.limitChanged()
	}
	_, err = c.in.r.Discard(f.length)
	return err
}

// settings puts p in force and acknowledges it. c.mu is held.
func (c *Conn) settings(f frame, p []byte) (first bool, err error) {
	if f.has(flagAck) {
		known := c.inflow.isKnown()
		if !c.inflow.acknowledge(now()) {
			return false, c.countUseless()
		}
		if !known && !c.inflow.near() { // a near peer empties the socket soon, and each write costs it time
			c.send.limitUnsent(unsentLimit)
		}
		return false, nil
	}
	if !c.limiter.countReply() || !c.limiter.countUseless() {
		return false, c.fault(EnhanceYourCalm, "too many SETTINGS")
	}
	first = !c.peer.greeted
	if first {
		c.peer.greeted = true
		c.peer.maxStreams = c.limitStreams(math.MaxInt)
		c.watch()
		if c.side == server {
			c.limitUnused()
		}
	}
	window, o := c.peer.window, ahead
	for ; len(p) > 0; p = p[settingLen:] {
		id, v := settingID(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint32(p[2:])
		if id == setWindow && v <= maxWindow {
			window = int64(v) // only the last one takes effect: each would walk all streams
			continue
		}
		switch { // the last: after the acknowledgement, requests that are queued would be more than the peer permits
		case id == setHeaderTable, id == setMaxFrame && int64(v) < int64(c.peer.maxFrame), c.side == client && id == setMaxStreams && int64(v) < int64(c.inUse):
			o = inTurn
		}
		if err := c.setting(id, v); err != nil {
			return false, err
		}
	}
	if window < c.peer.window {
		o = inTurn
	}
	if err := c.setStreamWindows(window); err != nil {
		return false, err
	}
	c.acknowledge(o)
	c.wakeOpeners()
	c.endNoWaits()
	return first, nil
}

// acknowledge queues the acknowledgement of SETTINGS, inTurn if frames that are queued may be more than these permit: the peer relies on
// them once it has it. c.mu is held.
func (c *Conn) acknowledge(o order) {
	if o == inTurn {
		c.peer.tightened = c.send.current()
	} else {
		o = c.send.after(c.peer.tightened) // acknowledgements are alike: they stay in order
	}
	c.putOrdered(frame{typ: frameSettings, flags: flagAck}, o)
}

// setStreamWindows changes the window of every stream as the peer's
// INITIAL_WINDOW_SIZE has changed (RFC 9113 section 6.9.2). c.mu is held.
func (c *Conn) setStreamWindows(window int64) error {
	d := window - c.peer.window
	if d == 0 {
		return nil
	}
	if !c.limiter.countWalked(c.streams.len()) {
		return c.fault(EnhanceYourCalm, "too many changes of INITIAL_WINDOW_SIZE")
	}
	c.peer.window = window
	for s := range c.streams.all() {
		if s.out += d; s.out > maxWindow {
			return c.fault(FlowControlError, "a window beyond 2^31-1")
		}
		c.relist(s)
	}
	return nil
}

// limitStreams applies this side's own limit to the peer's.
func (c *Conn) limitStreams(n int) int {
	if c.cfg.MaxStreams > 0 {
		return min(n, c.cfg.MaxStreams)
	}
	return n
}

func (c *Conn) setting(id settingID, v uint32) error {
	switch id {
	case setHeaderTable:
		c.enc.SetLimit(v)
	case setEnablePush:
		if v > 1 || v == 1 && c.side == client {
			return c.fault(ProtocolError, "ENABLE_PUSH of an impossible value")
		}
	case setMaxStreams:
		c.peer.maxStreams = c.limitStreams(int(min(v, math.MaxInt32)))
	case setWindow:
		return c.fault(FlowControlError, "INITIAL_WINDOW_SIZE beyond 2^31-1")
	case setHeaderList:
		c.peer.headerList.Store(v)
	case setExtendedConnect:
		if v > 1 || v == 0 && c.peer.extendedConnect {
			return c.fault(ProtocolError, "ENABLE_CONNECT_PROTOCOL of an impossible value")
		}
		c.peer.extendedConnect = v == 1
	case setNoPriorities:
		if v > 1 {
			return c.fault(ProtocolError, "NO_RFC7540_PRIORITIES of an impossible value")
		}
	case setMaxFrame:
		if v < minMaxFrame || v > maxMaxFrame {
			return c.fault(ProtocolError, "MAX_FRAME_SIZE of an impossible value")
		}
		c.peer.maxFrame = int(v)
	}
	return nil
}

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
