package h2

import (
	"encoding/binary"

	"github.com/tarn-go/tarn/wire"
)

// putHeaders queues a header list as HEADERS and, where it is longer than the
// peer's frames, CONTINUATION. c.mu is held.
func (c *Conn) putHeaders(s *Stream, b *Block, fields []Field, e Ending) {
	c.send.noteContent()
	s.batch = c.send.current()
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

// putReset queues RST_STREAM; o is ahead if no other frame of the stream is queued.
func (c *Conn) putReset(id uint32, o order, code Code) {
	c.counters.resetsSent.Add(1)
	if code == RefusedStream {
		c.counters.refused.Add(1)
	}
	binary.BigEndian.PutUint32(c.putOrdered(frame{typ: frameReset, length: 4, id: id}, o), uint32(code))
}

func (c *Conn) putWindow(id uint32, n int) {
	if s := c.streams[id]; s != nil && c.send.queues() {
		s.batch = c.send.current() // its RST_STREAM must not come before
	}
	binary.BigEndian.PutUint32(c.putOrdered(frame{typ: frameWindow, length: 4, id: id}, ahead), uint32(n))
}

func (c *Conn) putPing(f flags, data [8]byte) {
	o := ahead
	if f&flagAck == 0 {
		c.pings.unacked++
		if data == goAwayPing {
			o = inTurn // behind GOAWAY
		}
	}
	copy(c.putOrdered(frame{typ: framePing, length: 8, flags: f}, o), data[:])
}

func (c *Conn) putGoAway(last uint32, code Code, debug string) {
	c.counters.countGoAway(&c.counters.sent, code)
	debug = debug[:min(len(debug), maxDebug)]
	p := c.put(frame{typ: frameGoAway, length: 8 + len(debug)})
	binary.BigEndian.PutUint32(p, last)
	binary.BigEndian.PutUint32(p[4:], uint32(code))
	copy(p[8:], debug)
}

// order says where a frame is queued.
type order uint8

const (
	inTurn order = iota // behind all others
	ahead               // before frames that carry content, and between those of a batch that is being sent
)

// put queues a frame header, in order, and returns the payload to be filled in before c.mu is
// given up. c.mu is held; f.length is at most wire.MaxPeek - frameHeaderLen.
func (c *Conn) put(f frame) []byte { return putInto(c.send.outgoing(), f) }

// putOrdered is put for a frame that others need not precede.
func (c *Conn) putOrdered(f frame, o order) []byte {
	if o == ahead {
		return putInto(c.send.frontBatch(), f)
	}
	return c.put(f)
}

func putInto(b *wire.Batch, f frame) []byte {
	if f.typ != frameContinuation {
		b.Mark()
	}
	p := b.Space(frameHeaderLen + f.length)
	putFrame(p, f)
	return p[frameHeaderLen:]
}
