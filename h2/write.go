package h2

import (
	"context"

	"github.com/tarn-go/tarn"
)

// Out is what one Write, Post or Open sends, in this order: HEADERS of Block and
// then Fields, if either is set; DATA of Data, then all of Rest and then of Source; HEADERS of
// TrailerBlock and then Trailers, if either is set, which end the stream.
// Ownership of Data and of what Rest holds is taken, on errors too.
type Out struct {
	Block        *Block
	Fields       []Field
	Data         tarn.Buffer
	Rest         *tarn.Chain // nil: nothing; left empty
	Source       Source      // Write only; supplies SourceLen bytes
	SourceLen    int64       // what a Write has not had from Source is left here; if that is not 0 and the Write returns nil, Source has ended it, and neither trailers nor Ending were sent
	TrailerBlock *Block
	Trailers     []Field
	Ending       Ending // END_STREAM on the last frame; trailers imply it
	Release      bool   // Write and WriteLater release the stream as Release does, unless they fail
	NoWait       bool   // Open does not wait while the peer permits no further stream
	LeaveData    bool   // Open with a context does not wait to send DATA: what would wait stays in Data, the caller's; not with Rest or trailers
	Opened       bool   // set by Open when the stream exists, also if Open then fails
}

func (o *Out) hasHeader() bool  { return o.Block != nil || len(o.Fields) > 0 }
func (o *Out) hasTrailer() bool { return o.TrailerBlock != nil || len(o.Trailers) > 0 }

// dataLen returns how many bytes of DATA have yet to be queued, without those of Source.
func (o *Out) dataLen() int {
	n := o.Data.Len()
	if o.Rest != nil {
		n += o.Rest.Len()
	}
	return n
}

// freeEmpty frees Data if it is empty: such a reference holds its slab, too.
func (o *Out) freeEmpty() {
	if o.Data.Len() == 0 {
		o.Data.Free()
		o.Data = tarn.Buffer{}
	}
}

func (o *Out) free() {
	o.Data.Free()
	o.Data = tarn.Buffer{}
	if o.Rest != nil {
		o.Rest.Free()
	}
}

// failed frees what is left of o after a Write has failed with err, and panics if its Source has. c.mu is not held: who recovers may use the
// connection.
func (o *Out) failed(err error) {
	o.free()
	if p, ok := err.(*sourcePanic); ok {
		panic(p.value)
	}
}

// Write sends o; it takes ownership of what o holds. It waits while the peer's
// flow-control windows, or a connection that does not take the bytes, keep the DATA back,
// until ctx is done (nil: as long as it takes); the stream is then still open, part
// of the DATA may have been sent, and Reset is in order. It never waits for the
// network in any other way, so that ctx ends it on every kind of connection. Frames
// may still be queued (up to 2 MiB on a connection) when Write returns: that the
// connection broke shows on the next call and by OnReset.
//
// Errors: ErrStreamDone when this side has ended or reset the stream, what OnReset
// says when the peer or the connection has ended it, or ctx's error. It panics as o.Source does.
func (s *Stream) Write(ctx context.Context, o *Out) error {
	c := s.c
	c.mu.Lock()
	gen := s.gen
	err := c.write(ctx, s, o)
	idle, twice := false, false
	if err == nil {
		m := c.send.together()
		if twice = o.Release && s.releasedSince(gen); o.Release && !twice {
			idle = c.release(s)
		}
		c.send.flush(m)
	}
	c.mu.Unlock()
	if twice {
		panic(releasedTwice)
	}
	if err != nil {
		o.failed(err)
	}
	if idle {
		c.idled()
	}
	return err
}

// WriteLater is Write that leaves the sending to the caller's next Write or [Conn.Flush]
// on this connection, of which there must be one soon: several small messages then
// leave in one system call. Until then frames may stay queued, unless they
// fill a batch of 256 KiB. It takes ownership of what o holds.
func (s *Stream) WriteLater(ctx context.Context, o *Out) error {
	c := s.c
	c.mu.Lock()
	gen := s.gen
	err := c.write(ctx, s, o)
	idle, twice := false, false
	if err == nil && o.Release {
		if twice = s.releasedSince(gen); !twice {
			idle = c.release(s)
		}
	}
	if err == nil && c.send.queued() >= batchLimit {
		c.send.flush(flushWithRun)
	}
	c.mu.Unlock()
	if twice {
		panic(releasedTwice)
	}
	if err != nil {
		o.failed(err)
	}
	if idle {
		c.idled()
	}
	return err
}

// Flush sends what WriteLater has queued. It does not wait for the network.
func (c *Conn) Flush() {
	c.mu.Lock()
	c.send.flush(flushWithRun)
	c.mu.Unlock()
}

// Post is Write for callbacks: it never waits. When the windows do not cover all
// of the DATA, or 2 MiB are queued because the peer does not read, it sends nothing and returns ErrWouldBlock. It takes
// ownership of what o holds.
func (s *Stream) Post(o *Out) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	err := s.sendable()
	o.freeEmpty()
	if left := o.dataLen(); err == nil && left > 0 && (int64(left) > min(s.out, c.peer.conn) || c.send.queued() >= refuseAbove) {
		err = ErrWouldBlock
	}
	if err != nil {
		o.free()
		return err
	}
	c.putOut(s, o)
	c.send.flush(flushWithRun)
	return nil
}

// sendable returns why nothing can be sent on s, if so.
func (s *Stream) sendable() error {
	switch {
	case s.state == closed:
		return s.err
	case s.state == halfClosedLocal:
		return ErrStreamDone
	}
	return s.c.lifetime.reason()
}

// write queues o, waiting where it must. It takes ownership of what o holds unless it fails:
// then that stays the caller's. c.mu is held, but not throughout.
func (c *Conn) write(ctx context.Context, s *Stream, o *Out) error {
	if err := s.sendable(); err != nil {
		return err
	}
	o.freeEmpty()
	if left := o.dataLen(); o.SourceLen == 0 && (left == 0 || c.fits(s, left)) {
		c.putOut(s, o)
		return nil
	}
	if o.hasHeader() {
		c.putHeaders(s, o.Block, o.Fields, More)
	}
	return c.waitSent(ctx, s, o)
}

// fits reports whether left bytes of DATA on s may be queued now: windows and batch
// have room for all of them, and no other DATA waits for its turn. c.mu is held.
func (c *Conn) fits(s *Stream, left int) bool {
	n := int64(left)
	return n <= s.out && n <= c.peer.conn && c.ready.empty() && left <= c.send.room()
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
