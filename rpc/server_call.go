package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/timers"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// serverCall is one call: its context, its stream and its grpc.ServerStream in
// one object. Handlers may keep any of these after they have returned, so it is
// never used for a second call; what is reused lies beneath it, in h2.
type serverCall struct {
	conn  *serverConn
	st    *h2.Stream
	shape *shape
	more  []h2.Field      // the call's own metadata
	user  context.Context // what the handler sees: the call itself, or tagged by stats handlers
	begun time.Time       // for statistics

	deadline time.Time
	timer    timers.Entry

	mu        sync.Mutex
	in        message.Assembler
	ungranted int // bytes received whose window has not been given back
	inEnd     bool
	dispatch  dispatch
	dropIn    bool // the call is over: in is freed, now or when filling ends
	filling   bool // the reading goroutine writes to memory of in
	waiting   bool // RecvMsg waits on ready
	ready     chan struct{}
	err       error // why the call is over: context.Canceled or DeadlineExceeded
	done      chan struct{}
	afters    []*afterFunc
	md        metadata.MD
	first     received // the request of a unary call

	recvMu sync.Mutex // held while RecvMsg uses the stream

	sendMu     sync.Mutex // held while anything is sent
	header     metadata.MD
	trailer    metadata.MD
	sentHeader bool
	released   bool
	comp       *sendCompressor // not nil: chosen by SetSendCompressor
}

// dispatch is how far a call has come. It is under serverCall.mu.
type dispatch uint8

const (
	gathering dispatch = iota // a unary request is not complete
	handling                  // a handler has it, or had it
	abandoned                 // it ended before a handler got it
)

// received is a message as it came, or why there is none.
type received struct {
	msg  message.Message
	kind message.Kind
	size int // on the wire, without prefix
	err  error
}

// begin makes a call of a request, or refuses it. It runs on the connection's
// reading goroutine.
func (c *serverConn) begin(s *h2.Stream, h *h2.Header, e h2.Ending) {
	c.touch()
	sh := c.shapeOf(h)
	if sh.refuse != nil {
		c.refuse(s, sh.subtype, sh.refuse)
		return
	}
	more, timeout, has, err := sh.callFields(h.More)
	if err != nil {
		c.refuse(s, sh.subtype, &refusal{httpStatus: httpBadRequest, st: status.New(codeInternal, err.Error())})
		return
	}
	call := &serverCall{conn: c, st: s, shape: sh, more: more}
	if hasBinary(more) {
		var no *refusal
		if call.md, no = sh.checkedMetadata(more); no != nil {
			c.refuse(s, sh.subtype, no)
			return
		}
	}
	s.Value = call
	call.user = call
	unary := sh.method != nil && sh.method.unary != nil
	if !unary {
		call.dispatch = handling
		call.inEnd = e == h2.End
	}
	if has {
		call.deadline = time.Now().Add(timeout)
	}
	if len(c.srv.opts.stats) > 0 {
		call.statsBegin(h)
	}
	if has {
		// From here on the timer may end the call at any time.
		c.timers.Add(&call.timer, call.deadline, call)
	}
	switch {
	case !unary:
		call.start()
	case e == h2.End:
		call.received(tarn.Buffer{}, e)
	}
}

// shapeOf returns what the connection remembers of a header list, or makes it.
func (c *serverConn) shapeOf(h *h2.Header) *shape {
	if h.Memo == nil || varies(h.More) {
		return c.srv.newShape(h)
	}
	sh, ok := (*h.Memo).(*shape)
	if !ok {
		sh = c.srv.newShape(h)
		*h.Memo = sh
	}
	return sh
}

func hasBinary(fs []h2.Field) bool {
	for i := range fs {
		if header.IsBin(fs[i].Name) {
			return true
		}
	}
	return false
}

// start hands the call, whose dispatch is handling already, to a handler.
func (c *serverCall) start() {
	c.conn.srv.handlers.Add(1)
	c.conn.srv.workers.run(c)
}

// received takes ownership of b, a piece of the request. It runs on the reading
// goroutine.
func (c *serverCall) received(b tarn.Buffer, e h2.Ending) {
	n := b.Len()
	c.mu.Lock()
	if c.err != nil || c.inEnd || c.dispatch == abandoned {
		c.mu.Unlock()
		b.Free()
		return
	}
	c.in.Append(b)
	c.arrived(n, e)
}

// arrived reacts to n more bytes in c.in. c.mu is held on entry and released.
func (c *serverCall) arrived(n int, e h2.Ending) {
	c.ungranted += n
	c.inEnd = e == h2.End
	if c.dispatch == handling {
		c.deliver()
		return
	}
	c.gather()
}

// deliver tells a waiting RecvMsg, unless all that came is a further part of a
// message that is still incomplete: then it only gives the window back. c.mu is
// held on entry and released.
func (c *serverCall) deliver() {
	if c.waiting {
		if missing, size, ok := c.in.Missing(); ok && missing > 0 && !c.inEnd && size <= c.conn.srv.opts.maxRecv {
			c.grantLocked()
		} else {
			c.wakeLocked()
		}
	}
	c.mu.Unlock()
}

// grantLocked gives back the window of all that has come. It is done under c.mu,
// with c.err nil, because only then is the stream sure not to be released.
func (c *serverCall) grantLocked() {
	if c.ungranted > 0 {
		c.st.Consumed(c.ungranted)
		c.ungranted = 0
	}
}

// gather starts the handler of a unary call once its request is complete or
// cannot become so. c.mu is held on entry and released.
func (c *serverCall) gather() {
	m, kind, size, ok, err := c.in.Next(c.conn.srv.opts.maxRecv)
	switch {
	case ok:
	case err != nil:
	case c.inEnd && c.in.Len() > 0:
		err = message.ErrTruncated
	case c.inEnd:
		err = errNoMessage
	default:
		c.grantLocked()
		c.mu.Unlock()
		return
	}
	c.first = received{m, kind, size, err}
	c.in.Free()
	c.dispatch = handling
	c.mu.Unlock()
	c.start()
}

func (c *serverCall) wakeLocked() {
	c.waiting = false
	c.ready <- struct{}{} // holds one; only a waiter asks for it
}

// next waits for the next message of the stream. The error is a context's, an
// Assembler's, or io.EOF by way of errEnd.
func (c *serverCall) next(limit int) received {
	c.mu.Lock()
	for {
		m, kind, size, ok, err := c.in.Next(limit)
		if ok || err != nil {
			grant := min(c.ungranted, message.PrefixLen+size)
			c.ungranted -= grant
			c.mu.Unlock()
			if ok && grant > 0 {
				c.st.Consumed(grant)
			}
			return received{m, kind, size, err}
		}
		switch {
		case c.err != nil:
			err = c.err
		case c.inEnd && c.in.Len() > 0:
			err = message.ErrTruncated
		case c.inEnd:
			err = errEnd
		}
		if err != nil {
			c.mu.Unlock()
			return received{err: err}
		}
		if c.ready == nil {
			c.ready = make(chan struct{}, 1)
		}
		c.waiting = true
		grant := c.ungranted
		c.ungranted = 0
		c.mu.Unlock()
		if grant > 0 {
			c.st.Consumed(grant)
		}
		<-c.ready
		c.mu.Lock()
	}
}

// reset ends the call when its stream is gone. It runs on the reading goroutine.
func (c *serverCall) reset() { c.cancel(context.Canceled) }

// DeadlinePassed ends the call and tells the client that nobody works on it any
// more.
func (c *serverCall) DeadlinePassed() {
	c.mu.Lock()
	h := h2.Handle{}
	if c.err == nil {
		// Not released yet: that happens after err is set.
		h = c.st.Handle()
	}
	c.mu.Unlock()
	c.cancel(context.DeadlineExceeded)
	h.Reset(h2.Cancel)
}

// cancel ends the call's context. A call that no handler has is also released.
func (c *serverCall) cancel(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	afters := c.afters
	c.afters = nil
	if c.waiting {
		c.wakeLocked()
	}
	drop := c.dispatch == gathering
	if drop {
		c.dispatch = abandoned
		c.freeIn()
	}
	c.mu.Unlock()
	for _, a := range afters {
		go a.f()
	}
	if drop {
		c.dropped()
	}
}

// dropped releases a call that never got a handler.
func (c *serverCall) dropped() {
	if !c.deadline.IsZero() {
		c.conn.timers.Remove(&c.timer)
	}
	c.sendMu.Lock()
	c.released = true
	c.st.Release()
	c.sendMu.Unlock()
	if len(c.conn.srv.opts.stats) > 0 {
		c.statsEnd(status.FromContextError(c.err).Err())
	}
}

// end is called once when the handler is through and its status has been sent:
// it ends the context, waits for stray users of the stream, and releases it.
func (c *serverCall) end() {
	if !c.deadline.IsZero() {
		c.conn.timers.Remove(&c.timer)
	}
	c.cancel(context.Canceled)
	if !c.recvMu.TryLock() {
		// A goroutine the handler left behind is in RecvMsg; it has been woken.
		c.recvMu.Lock()
	}
	if !c.sendMu.TryLock() {
		// One is in SendMsg: its wait for the peer's window ends with the stream.
		c.st.Handle().Reset(h2.Cancel)
		c.sendMu.Lock()
	}
	c.released = true
	c.mu.Lock()
	c.freeIn()
	c.first.msg.Free()
	c.mu.Unlock()
	c.st.Release()
	c.sendMu.Unlock()
	c.recvMu.Unlock()
}
