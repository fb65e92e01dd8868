package h2

import (
	"encoding/binary"

	"github.com/tarn-go/tarn"
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
	if s := c.streams.get(id); s != nil && c.send.onlyInTurn() {
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

// putOut queues all of o. c.mu is held.
func (c *Conn) putOut(s *Stream, o *Out) {
	last := o.Ending
	if o.hasHeader() {
		e := More
		if o.dataLen() == 0 && !o.hasTrailer() {
			e = last
		}
		c.putHeaders(s, o.Block, o.Fields, e)
		if o.dataLen() == 0 && !o.hasTrailer() {
			if e == End {
				c.ended(s)
			}
			return
		}
	}
	c.putTail(s, o)
}

// putTail queues what follows the header of o. c.mu is held.
func (c *Conn) putTail(s *Stream, o *Out) {
	left := o.dataLen()
	switch {
	case o.hasTrailer():
		if left > 0 {
			c.putData(s, o, left, More)
		}
		c.putHeaders(s, o.TrailerBlock, o.Trailers, End)
	case left > 0 || o.Ending == End:
		c.putData(s, o, left, o.Ending)
		if o.Ending == More {
			return
		}
	default:
		return
	}
	c.ended(s)
}

// putData queues the next n bytes of o as DATA frames of the peer's size. The
// windows cover them. c.mu is held.
func (c *Conn) putData(s *Stream, o *Out, n int, e Ending) {
	s.out -= int64(n)
	c.peer.conn -= int64(n)
	c.send.noteContent()
	s.batch = c.send.current()
	b := c.send.outgoing()
	for {
		m := min(n, c.peer.maxFrame)
		n -= m
		f := frame{typ: frameData, length: m, id: s.id}
		if n == 0 && e == End {
			f.flags = flagEndStream
		}
		b.Mark()
		putFrame(b.Space(frameHeaderLen), f)
		for m > 0 {
			if d := o.Data.Len(); d > 0 {
				head := o.Data
				if d > m {
					head, o.Data = head.Split(m)
				} else {
					o.Data = tarn.Buffer{}
				}
				m -= head.Len()
				b.Append(head)
				continue
			}
			b.AppendChain(o.Rest, m)
			m = 0
		}
		if n == 0 {
			return
		}
	}
}

// ended notes that the last frame of this side of s is queued. c.mu is held.
func (c *Conn) ended(s *Stream) { c.advance(s, sendEnd, nil) }

var (
	goAwayPing = [8]byte{'g', 'o', 'a', 'w', 'a', 'y'}                   // between a server's two GOAWAYs
	alivePing  = [8]byte{'a', 'l', 'i', 'v', 'e', '?'}                   // keepalive's
	resetPing  = [8]byte{'r', 'e', 's', 'e', 't', '?'}                   // of Config.ProbeResets
	pingFirst  = binary.BigEndian.Uint64([]byte("ping\x00\x00\x00\x00")) // Ping's count from here
)
