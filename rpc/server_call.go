package rpc

import (
	"context"
	"io"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/lifetime"
	"github.com/tarn-go/tarn/internal/workers"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/rpc/internal/timers"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// serverCall is a call of gRPC on a connection of Serve: its context, its stream and its grpc.ServerStream in one object. Handlers may keep
// any of these after they have returned, so it is never reused for another call; the reused objects are those
// of h2.
type serverCall struct {
	conn   *serverConn
	st     *h2.Stream
	handle h2.Handle // of st, for those who may come when it has been released
	shape  *shape
	extra  []h2.Field // the call's own metadata

	workers.Link[*serverCall]

	timer timers.Entry // of the deadline; its time is zero without one

	inbox

	// Under inbox.mu:
	over      lifetime.State // with context.Canceled or DeadlineExceeded
	md        metadata.MD
	dispatch  dispatch
	admission bool // the call is part of its connection's admission

	unsent bool // the response has been queued, and Handle's caller sends it

	admitted admitted // under conn.admission.mu

	runner
	comp *sendCompressor // not nil: chosen by SetSendCompressor. Under sendMu
}

// dispatch is the state of a call's handling. It is guarded by serverCall.mu.
type dispatch uint8

const (
	gathering dispatch = iota // a unary request is incomplete
	handling                  // its handler has been started
	abandoned                 // it ended before its handler was started
)

// begin makes a call from a request, or refuses it. It runs on the connection's reading goroutine.
func (c *serverConn) begin(s *h2.Stream, h *h2.Header, e h2.Ending) {
	s.IgnoreLength() // as grpc-go, whose clients send what a program has in its metadata
	sh := c.shapeOf(h)
	if sh.refuse != nil && !sh.refuse.tapped {
		c.refuse(s, sh.subtype, sh.refuse)
		return
	}
	extra, timeout, has, err := sh.callFields(h.Extra)
	if err != nil {
		c.refuse(s, sh.subtype, &refusal{httpStatus: httpBadRequest, st: status.New(codes.Internal, err.Error())})
		return
	}
	call := &serverCall{conn: c, st: s, handle: s.Handle(), shape: sh, extra: extra}
	if hasBinary(extra) {
		var no *refusal
		if call.md, no = sh.checkedMetadata(extra); no != nil {
			c.refuse(s, sh.subtype, no)
			return
		}
	}
	call.user = call
	if has {
		call.timer.Set(time.Now().Add(timeout))
	}
	if st := call.tap(call); st != nil {
		call.endCall()
		c.refuse(s, sh.subtype, &refusal{httpStatus: httpOK, st: st})
		return
	}
	if len(c.srv.opts.stats) > 0 {
		call.statsArrived(wireLength(h))
	}
	if sh.refuse != nil {
		if sh.refuse.unregistered && len(c.srv.opts.stats) > 0 {
			call.unregistered()
		} else {
			call.endCall()
		}
		c.refuse(s, sh.subtype, sh.refuse)
		return
	}
	if sh.method != nil {
		call.lease = sh.method.lends.lease()
	}
	s.Value = call
	call.source, call.limit = s, c.srv.opts.maxRecv
	call.grantAt = int32(max(1, min(grantFrom, c.srv.opts.grantBeforeStart())))
	unary := sh.isUnary()
	if unary {
		call.mode = onlyOne
	} else {
		call.dispatch = handling
	}
	if e == h2.End {
		call.end = io.EOF
	}
	if has {
		s.SetDeadline(call.timer.At())
	}
	c.srv.entity.Begin()
	c.entity.Begin()
	c.srv.handlers.Add(1) // until the handler has returned, or dropped
	if has {
		// From here on the timer may end the call at any time.
		c.timers.Add(&call.timer, call)
	}
	switch {
	case !unary:
		call.start()
	case e == h2.End:
		call.mu.Lock()
		call.gather()
	}
}

// shapeOf returns the cached shape of a header list, or makes it.
func (c *serverConn) shapeOf(h *h2.Header) *shape {
	if h.Memo == nil || varies(h.Extra) {
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

// unregistered reports a call of a method that no service has to the statistics handlers, on a goroutine of its own, and then ends it.
func (c *serverCall) unregistered() {
	c.conn.srv.handlers.Add(1)
	go func() {
		defer c.conn.srv.handlers.Done()
		defer c.endCall()
		c.statsUnregistered(c)
	}()
}

// wireLength is the length of a header list in bytes.
func wireLength(h *h2.Header) (n int) {
	for _, fs := range [...][]h2.Field{h.Fields, h.Extra} {
		for i := range fs {
			n += len(fs[i].Name) + len(fs[i].Value)
		}
	}
	return n
}

// start starts the call's handler; its dispatch is handling already. It runs on the reading goroutine.
func (c *serverCall) start() {
	c.st.Starting()
	c.conn.srv.workers.Run(c)
}

// gotData takes ownership of b, a piece of the request. It runs on the reading
// goroutine.
func (c *serverCall) gotData(b tarn.Buffer, e h2.Ending) {
	c.mu.Lock()
	c.put(b, c.conn.srv.opts.pool)
	c.gotEnd(e)
}

// gotEnd processes what came with the last DATA: the request's end, or a request that is complete. mu is held
// on entry and released.
func (c *serverCall) gotEnd(e h2.Ending) {
	if e == h2.End {
		c.finish(io.EOF)
	}
	c.gather()
}

// gather starts the handler of a unary call when its request has ended. mu is
// held on entry and released.
func (c *serverCall) gather() {
	if c.dispatch != gathering {
		c.mu.Unlock()
		return
	}
	if c.end == nil {
		c.askAdmission()
		return
	}
	if c.ungranted >= c.conn.srv.opts.grantBeforeStart() {
		c.grant() // the handler may take long
	}
	c.dispatch = handling
	asked := c.admission
	c.mu.Unlock()
	if asked {
		c.leaveAdmission()
	}
	c.start()
}

const (
	// grantLarge is the length in bytes from which a request's window is given back before its handler starts,
	// and not when its stream ends: that takes the connection's lock once more.
	grantLarge = 16 << 10
	// unreadMost is how many bytes all streams of a server's connection may have not consumed before the connection's window is
	// withheld (h2.Config.Unread).
	unreadMost = 64 << 20
)

// grantBeforeStart is grantLarge, or less where so many handlers may run that their requests, each shorter than
// that, could together keep the connection's window from its peer.
func (o *serverOptions) grantBeforeStart() int {
	return min(grantLarge, unreadMost/max(1, o.maxStreams))
}

// askAdmission gives an incomplete request its window back if its connection may gather that much. mu is held
// on entry and released.
func (c *serverCall) askAdmission() {
	missing, _, ok := c.in.Missing()
	if !ok || missing == 0 || c.ungranted == 0 {
		c.in.Shrink() // the request's end may take long to arrive
		c.mu.Unlock()
		return
	}
	c.admission = true
	v := c.conn.admission.ask(c, c.in.Memory(), missing)
	var h h2.Handle
	switch {
	case v == admit:
		c.grant()
	case v == hold:
		c.in.Park()
		c.source.Taken(c.ungranted - c.taken)
		c.taken = c.ungranted
	case v == refuse:
		h = c.handle
	}
	c.mu.Unlock()
	if v == refuse {
		h.Reset(h2.RefusedStream)
		c.cancel(context.Canceled)
	}
}

// leaveAdmission ends the call's share in its connection's admission. mu is not held.
func (c *serverCall) leaveAdmission() {
	for _, next := range c.conn.admission.release(c) {
		next.mu.Lock()
		next.grant()
		next.mu.Unlock()
	}
}

// placeData returns the memory for the next DATA.
func (c *serverCall) placeData() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.place(c.conn.srv.opts.pool, &c.conn.placing.grants, c.learned().Plan())
}

// learned is the plan of the method's requests; nil: none, or they are lent.
func (c *serverCall) learned() *message.Learned {
	if m := c.shape.method; m != nil && c.lease == nil {
		return &m.requests
	}
	return nil
}

// placedData reports that n bytes have been written there.
func (c *serverCall) placedData(n int, e h2.Ending) {
	c.mu.Lock()
	c.fill(n)
	c.gotEnd(e)
}

// reset ends the call when its stream has been reset. It runs on the reading goroutine.
func (c *serverCall) reset() { c.cancel(context.Canceled) }

// DeadlinePassed resets the stream and then ends the call, so that a handler that wakes up cannot answer any
// more.
func (c *serverCall) DeadlinePassed() {
	c.handle.Reset(h2.Cancel)
	c.cancel(context.DeadlineExceeded)
}

// cancel ends the call's context. A call without a handler is also released.
func (c *serverCall) cancel(err error) {
	c.mu.Lock()
	run, first := c.over.End(err)
	if !first {
		c.mu.Unlock()
		return
	}
	c.fail(err)
	drop := c.dispatch == gathering
	if drop {
		c.dispatch = abandoned
		c.closeLocked()
	}
	c.mu.Unlock()
	run.Run()
	if drop {
		c.dropped()
	}
}

// dropped releases a call whose handler was never started.
func (c *serverCall) dropped() {
	if !c.timer.At().IsZero() {
		c.conn.timers.Remove(&c.timer)
	}
	if c.admission {
		c.leaveAdmission()
	}
	c.conn.srv.entity.End(entity.OutcomeOf(c.Err()))
	c.countStream()
	c.sendMu.Lock()
	c.released = true
	c.st.Release()
	c.sendMu.Unlock()
	if len(c.conn.srv.opts.stats) == 0 {
		c.conn.srv.handlers.Done()
		return
	}
	go func() { // the stats handlers may block
		defer c.conn.srv.handlers.Done()
		c.statsBegin(c)
		c.statsEnd(c, status.FromContextError(c.over.Err()).Err())
	}()
}

// countStream counts the end of the stream: it has succeeded if it was not reset, whatever the call's status.
func (c *serverCall) countStream() {
	if c.conn.entity != nil {
		c.conn.entity.End(entity.OutcomeOf(c.Err()))
	}
}

// release is called once when the handler has returned and the status has been
// sent: it ends the context, waits for other users of the stream, and releases it,
// unless that was done with the response.
func (c *serverCall) release() {
	if !c.timer.At().IsZero() {
		c.conn.timers.Remove(&c.timer)
	}
	c.countStream()
	if c.released { // with the response of a unary call
		c.endCall()
		return
	}
	if !c.tryLockUse() {
		c.cancel(context.Canceled)
		c.lockUse()
	}
	c.released = true
	c.endCall()
	c.st.Release()
	c.sendMu.Unlock()
	c.recvMu.Unlock()
}

// releaseLent implements serverCarrier.
func (c *serverCall) releaseLent() {
	c.recvMu.Lock()
	c.lease.Release()
	c.recvMu.Unlock()
}

// endCall ends the context, and frees what the call holds.
func (c *serverCall) endCall() {
	c.mu.Lock()
	run, first := c.over.End(context.Canceled)
	if first {
		c.fail(context.Canceled)
	}
	c.closeLocked()
	c.mu.Unlock()
	run.Run()
}

// tryLockUse takes recvMu and sendMu if no goroutine that the handler left running uses the stream.
func (c *serverCall) tryLockUse() bool {
	if !c.recvMu.TryLock() {
		return false
	}
	if !c.sendMu.TryLock() {
		c.recvMu.Unlock()
		return false
	}
	return true
}

// lockUse waits until no such goroutine uses the stream, and takes recvMu and sendMu. The call's context has ended, which has woken
// one that is in RecvMsg.
func (c *serverCall) lockUse() {
	c.recvMu.Lock()
	if !c.sendMu.TryLock() {
		// One is in SendMsg: its wait for the peer's window ends with the stream.
		c.handle.Reset(h2.Cancel)
		c.sendMu.Lock()
	}
}
