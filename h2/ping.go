package h2

import (
	"context"
	"encoding/binary"
	"time"
)

// pings keeps track of this side's PINGs; guarded by Conn.mu.
type pings struct {
	wait    map[uint64]chan struct{} // by payload
	next    uint32                   // Ping's count
	unacked uint32                   // PINGs that were queued, keepalive's and GOAWAY's too, and not acknowledged

	// With Config.ProbeResets:
	heard    uint32 // something has come since all streams below this one were opened
	doubtful int    // streams that were reset since something came; they count as open
	probing  bool   // resetPing is not answered
	probed   bool   // it was answered, and no HEADERS has come since
}

// Ping sends a PING and returns after how long the answer came. It fails with ctx's
// error or what ended the connection.
func (c *Conn) Ping(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	c.mu.Lock()
	if err := c.lifetime.reason(); err != nil {
		c.mu.Unlock()
		return 0, err
	}
	if c.pings.wait == nil {
		c.pings.wait = make(map[uint64]chan struct{})
	}
	key := pingFirst + uint64(c.pings.next)
	c.pings.next++
	back := make(chan struct{})
	c.pings.wait[key] = back
	var data [8]byte
	binary.BigEndian.PutUint64(data[:], key)
	c.putPing(0, data)
	c.send.flush(flushPromptly)
	c.mu.Unlock()
	select {
	case <-back:
		if err := c.Err(); err != nil {
			return 0, err
		}
		return time.Since(begun), nil
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pings.wait, key)
		c.mu.Unlock()
		return 0, ctx.Err()
	}
}

// onPong handles the answer to a PING and reports whether this side has asked for one. That
// is counted, not looked up in wait, which has neither keepalive's PINGs nor those whose
// Ping has been cancelled. c.mu is held.
func (c *Conn) onPong(data [8]byte) (asked bool) {
	if asked = c.pings.unacked > 0; asked {
		c.pings.unacked--
	}
	if data == goAwayPing {
		c.in.leaving = true
		return asked
	}
	if data == resetPing && c.pings.probing {
		c.pings.probing, c.pings.probed = false, true
	}
	key := binary.BigEndian.Uint64(data[:])
	if back := c.pings.wait[key]; back != nil {
		delete(c.pings.wait, key)
		close(back)
	}
	return asked
}

// doubt is called when this side is about to reset s, which counts as open. If the peer may be gone, s goes on counting, so that
// the requests of a dead connection, each given up in time, fill it. c.mu is held.
func (c *Conn) doubt(s *Stream) {
	p := &c.pings
	if c.cfg.ProbeResets == Deny || s.id < p.heard || c.openable() != nil {
		return
	}
	p.doubtful++
	c.opened++
	full := c.opened > c.peer.maxStreams || p.doubtful >= mostDoubtful // s counts twice until it is closed
	if !p.probing && (!p.probed || full) {
		p.probing = true
		c.putPing(0, resetPing)
	}
}

// noteHeard is called when frames have come. It reports whether there is room for more streams than before. c.mu is held.
func (c *Conn) noteHeard() (more bool) {
	p := &c.pings
	p.heard = c.nextID
	c.lifetime.noteHeard()
	if p.doubtful == 0 {
		return false
	}
	c.opened -= p.doubtful
	p.doubtful = 0
	c.wakeOpeners()
	return true
}

// endPings ends every Ping that waits for an answer. c.mu is held.
func (c *Conn) endPings() {
	for key, back := range c.pings.wait {
		delete(c.pings.wait, key)
		close(back)
	}
}

// onPing takes a PING (RFC 9113 section 6.7).
func (c *Conn) onPing(f frame) error {
	data, err := c.fixed(f, 8, "PING of another length than 8")
	if err != nil {
		return err
	}
	if f.id != 0 {
		return c.fault(ProtocolError, "PING on a stream")
	}
	c.lock()
	defer c.mu.Unlock()
	if f.has(flagAck) {
		if c.onPong(data) {
			return nil
		}
		return c.countUseless()
	}
	if !c.limiter.countReply() || !c.limiter.countUseless() {
		return c.fault(EnhanceYourCalm, "too many PINGs")
	}
	c.putPing(flagAck, data)
	if c.side == server && !c.limiter.countPing(now(), c.inUse, c.cfg.Policy) {
		return c.fault(EnhanceYourCalm, "too_many_pings")
	}
	return nil
}
