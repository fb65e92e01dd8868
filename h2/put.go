package h2

import (
	"encoding/binary"

	"github.com/tarn-go/tarn/wire"
)

// putHeaders queues a header list as HEADERS and, where it is longer than the
// peer's frames, CONTINUATION. c.mu is held.
func (c *Conn) putHeaders(s *Stream, b *Block, fields []Field, e Ending) {
	c.limiter.wrote()
	p := c.enc.Encode(b, fields)
	f := frame{typ: frameHeaders, id: s.id}
	if e == End {
		f.flags = flagEndStream
	}
	for {
		f.length = min(len(p), c.peer.maxFrame, wire.MaxPeek-frameHeaderLen)
		if f.length == len(p) {
			f.flags |= flagEndHeaders
		}
		copy(c.put(f), p)
		p = p[f.length:]
		if len(p) == 0 {
			return
		}
		f.typ, f.flags = frameContinuation, 0
	}
}

func (c *Conn) putReset(id uint32, code Code) {
	c.counters.resetsSent.Add(1)
	if code == RefusedStream {
		c.counters.refused.Add(1)
	}
	binary.BigEndian.PutUint32(c.put(frame{typ: frameReset, length: 4, id: id}), uint32(code))
}

func (c *Conn) putWindow(id uint32, n int) {
	binary.BigEndian.PutUint32(c.put(frame{typ: frameWindow, length: 4, id: id}), uint32(n))
}

func (c *Conn) putPing(f flags, data [8]byte) {
	if f&flagAck == 0 {
		c.pings.unacked++
	}
	copy(c.put(frame{typ: framePing, length: 8, flags: f}), data[:])
}

func (c *Conn) putGoAway(last uint32, code Code, debug string) {
	c.counters.countGoAway(&c.counters.sent, code)
	debug = debug[:min(len(debug), maxDebug)]
	p := c.put(frame{typ: frameGoAway, length: 8 + len(debug)})
	binary.BigEndian.PutUint32(p, last)
	binary.BigEndian.PutUint32(p[4:], uint32(code))
	copy(p[8:], debug)
}

// put queues a frame header and returns the payload to be filled in before c.mu is
// given up. c.mu is held; f.length is at most wire.MaxPeek - frameHeaderLen.
func (c *Conn) put(f frame) []byte {
	p := c.outgoing().Space(frameHeaderLen + f.length)
	putFrame(p, f)
	return p[frameHeaderLen:]
}
