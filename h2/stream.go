package h2

import "sync/atomic"

// Stream is one request and its response. See the package comment for how long
// it may be used. Its methods are safe for concurrent use, except that at most
// one Write or Post may be under way.
type Stream struct {
	// Value is the handler's: set by Open before anything is written, or by the
	// handler in the first OnHeaders. It is cleared when the stream is used again.
	Value any

	c   *Conn
	id  uint32
	gen uint32 // moves on when the stream is used again: written under c.mu, when nothing but a Handle refers to the stream

	// Under c.mu:
	state state
	flags streamFlags
	batch uint32 // the last one with a frame of it, apart from those that were put ahead of others
	err   error  // why it ended early
	out   int64  // what the peer's window lets this side send; may be negative

	headers  int // size of the header lists received
	informed int // size of the informational ones
	inflow   streamInflow

	wait *waiting // nil: no Write has waited yet
	next *Stream  // list of spare streams

	priority Priority
	updated  bool          // priority is of a PRIORITY_UPDATE
	handler  atomic.Uint32 // a handlerStart

	// Run's own:
	deadline   instant // what SetDeadline said; 0: nothing
	gotHeaders bool
	length     int64 // what content-length has yet to bring; -1: not declared
}

// streamFlags are what the layer above and the limit know of a stream.
type streamFlags uint8

const (
	released streamFlags = 1 << iota // the layer above has called Release
	counted                          // counts against the limit on concurrent streams
)

func (s *Stream) is(x streamFlags) bool { return s.flags&x != 0 }

// ID returns the stream's number, odd and above zero.
func (s *Stream) ID() uint32 { return s.id }

// Conn returns the stream's connection.
func (s *Stream) Conn() *Conn { return s.c }

// Handle names a stream for as long as it lives and nothing afterwards: a
// timer or another goroutine may keep it after the stream's end.
type Handle struct {
	s   *Stream
	gen uint32
}

// Handle returns a handle of s.
func (s *Stream) Handle() Handle { return Handle{s, s.gen} }

// Reset is Stream.Reset if the stream has not been released meanwhile; otherwise
// it does nothing. The zero Handle does nothing.
func (h Handle) Reset(code Code) {
	if h.s == nil {
		return
	}
	c := h.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.s.gen == h.gen && !h.s.is(released) {
		c.resetByUser(h.s, code)
		c.send.flush(flushWithRun)
	}
}

// Reset ends the stream with RST_STREAM and ends a waiting Write. It does not
// block. On a stream that has ended it does nothing. OnReset is not called, unless
// the connection has failed before: then Reset does nothing, and OnReset reports the
// failure, once, as for every stream.
func (s *Stream) Reset(code Code) {
	c := s.c
	c.mu.Lock()
	c.resetByUser(s, code)
	c.send.flush(flushWithRun)
	c.mu.Unlock()
}

// Release ends the layer above's use of s: no method of s may be called any
// more. If the stream is still open it is reset with CANCEL, and a Write that waits on
// another goroutine ends with ErrStreamDone. A callback
// that has begun on Run's goroutine may still be under way when Release returns
// on another; there, Consumed, Reset and Post do nothing from then on.
func (s *Stream) Release() {
	c := s.c
	c.mu.Lock()
	if s.is(released) {
		c.mu.Unlock()
		panic(releasedTwice)
	}
	before := c.send.queued()
	unused := c.release(s)
	if c.send.queued() != before { // what WriteLater has queued is left to Flush
		c.send.flush(flushWithRun)
	}
	c.mu.Unlock()
	if unused {
		c.becameUnused()
	}
}

const releasedTwice = "h2: Stream released twice"

// releasedSince reports whether s has been released since it had gen. c.mu is held.
func (s *Stream) releasedSince(gen uint32) bool { return s.gen != gen || s.is(released) }

// release is Release apart from sending and OnIdle; it reports whether becameUnused is to be called. s is not released yet. c.mu is held.
func (c *Conn) release(s *Stream) (unused bool) {
	s.Started()
	s.flags |= released
	if s.state == closed {
		c.retire(s)
	} else {
		c.resetByUser(s, Cancel)
	}
	return c.inUse == 0 && c.events != nil
}

// becameUnused calls OnIdle after the last stream has been released. c.mu is not held.
func (c *Conn) becameUnused() { c.events.OnIdle(c) }

// recycle keeps s, to which only Handles refer now. c.mu is held.
func (c *Conn) recycle(s *Stream) {
	s.gen++
	s.Value, s.err = nil, nil
	if s.wait != nil && s.wait.taken { // Release came during a Write, which keeps it
		s.wait = nil
	}
	if c.nfree < maxFree {
		s.next, c.free = c.free, s
		c.nfree++
	}
}

// newStream registers a stream with the connection. c.mu is held.
func (c *Conn) newStream(id uint32) *Stream {
	s := c.free
	if s != nil {
		c.free, s.next = s.next, nil
		c.nfree--
	} else {
		s = &Stream{c: c}
	}
	s.id, s.state, s.flags, s.batch = id, open, counted, 0
	s.out, s.inflow = c.peer.window, c.inflow.open()
	s.headers, s.informed = 0, 0
	s.gotHeaders, s.length, s.deadline = false, -1, 0
	s.priority, s.updated = c.peer.signals.initial(), false
	s.handler = atomic.Uint32{} // notStarted; not stored atomically, because nothing else refers to s yet
	if c.streams == nil {
		c.streams = newStreamSet()
	}
	c.streams.add(s)
	c.inUse++
	c.opened++
	return s
}

// stream returns the open stream with that number; nil: there is none. The frames of a
// small message follow each other, so that most of them are for the current stream. c.mu is held.
func (c *Conn) stream(id uint32) *Stream {
	if s := c.current; s != nil && s.id == id && s.state != closed {
		return s
	}
	if c.side == server && id > c.lastID {
		return nil // the next to be opened
	}
	return c.streams.get(id)
}

// setCurrent says that Run is about to call back for s (or for none). c.mu is held.
func (c *Conn) setCurrent(s *Stream) {
	if old := c.current; old != s {
		c.current = s
		if old != nil && old.state == closed && old.is(released) {
			c.recycle(old)
		}
	}
}
