package rpc

import (
	"errors"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/workers"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Conn is the connection of the call.
func (c *serverCall) Conn() *h2.Conn { return c.conn.h2c }

// Handle runs the handler of c to its end. It reports whether the response has been
// queued and is to be sent by the caller.
func (c *serverCall) Handle(w *workers.Worker[*serverCall]) (unsent bool) {
	c.st.Started()
	if o := c.conn.srv.opts.observe; o != nil {
		if c.seen == nil {
			c.seen = &observed{begun: time.Now()}
		}
		o.enlist(c.seen, c.shape.path, working)
	}
	if len(c.conn.srv.opts.stats) > 0 {
		c.statsBegin()
	}
	var err error
	if m := c.shape.method; m != nil && m.unary != nil {
		// The request's memory stays with the worker: a serverCall, which is garbage after its call, is smaller without it.
		unsent, err = c.handleUnary(m, workers.Scratch[received](w))
	} else {
		err = c.handleStream(m)
	}
	c.countEnd(err)
	c.release()
	c.seen.end(err)
	if len(c.conn.srv.opts.stats) > 0 {
		c.statsEnd(err)
	}
	c.conn.srv.handlers.Done()
	return unsent
}

// handleUnary runs a unary handler and sends its reply: header, message and status in one write. While
// further calls of the connection are queued, the reply is left to be sent together with theirs, and unsent
// is true. It uses first for the request, and refers to it no more when it has returned.
func (c *serverCall) handleUnary(m *method, first *received) (unsent bool, err error) {
	// Without mu: the request has ended, so the reading goroutine does not touch it any more.
	*first = c.only()
	c.in.Free()
	c.first = first
	if first.err != nil {
		// As in grpc-go, interceptors are not called when no request has arrived.
		err := first.status(c.limit, requestCount)
		c.dropRequest()
		return false, c.sendStatus(statusOf(err)).Err()
	}
	reply, err := c.callUnary(m)
	if err != nil {
		return false, c.sendStatus(statusOf(err)).Err()
	}
	msg, info, err := c.tryEncodeReply(reply)
	if err != nil {
		return false, c.sendStatus(statusOf(err)).Err()
	}
	st, unsent, err := c.sendReply(msg)
	if err == errReplaced {
		return false, st.Err()
	}
	if err == nil {
		c.conn.entity.MessageSent()
	}
	if err == nil && len(c.conn.srv.opts.stats) > 0 {
		c.statsOutPayload(reply, info)
		c.statsOutTrailer()
	}
	if err == nil {
		err = st.Err()
	}
	return unsent, err
}

// errReplaced is sendReply's error if it has sent a status alone, because the header does not fit.
var errReplaced = errors.New("rpc: the response is a status")

// sendReply sends header, msg, of which it takes ownership, and the status that it returns.
func (c *serverCall) sendReply(msg message.Message) (st *status.Status, unsent bool, err error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock() // also if a stats handler ends the goroutine
	out := h2.Out{Data: msg.Buf, Rest: msg.Chain, Ending: h2.End, Release: true}
	defer freeOut(&out)
	if err := c.putHeader(&out); err != nil {
		return c.sendStatusLocked(statusOf(err)), false, errReplaced
	}
	st = c.putStatus(&out, nil)
	if c.conn.srv.workers.Next() == c.conn.h2c {
		unsent = true
		err = c.sendError(c.st.WriteLater(c, &out))
	} else {
		err = c.sendError(c.st.Write(c, &out))
	}
	c.released = err == nil // with the response; release does the rest
	return st, unsent, err
}

// tryEncodeReply is encodeReply; a codec or a compressor that panics ends the call alone.
func (c *serverCall) tryEncodeReply(reply any) (msg message.Message, info payloadInfo, err error) {
	defer c.recover(&err)
	return c.encodeReply(reply)
}

func (c *serverCall) callUnary(m *method) (reply any, err error) {
	defer c.dropRequest()
	defer c.recover(&err)
	return m.unary.Handler(m.impl, c.user, c.decodeUnary, c.conn.srv.unary)
}

// handleStream runs a streaming handler, or the one for unknown methods.
func (c *serverCall) handleStream(m *method) error {
	err := c.callStream(m)
	st := statusOf(err)
	if st != nil && st.Code() == codes.OK {
		st = nil
	}
	return c.sendStatus(st).Err()
}

func (c *serverCall) callStream(m *method) (err error) {
	defer c.recover(&err)
	return c.conn.srv.runStream(m, c.shape.path, (*serverStream)(c))
}

// Exited is Handle's end when the handler does not return because of
// runtime.Goexit.
func (c *serverCall) Exited() {
	if !c.ended { // statsEnd has not been called
		st := status.New(codes.Internal, "the handler ended its goroutine")
		logger.Errorf("the handler of %s called runtime.Goexit", c.shape.path)
		st = c.sendStatus(st)
		c.countEnd(st.Err())
		c.release()
		c.seen.end(st.Err())
		if len(c.conn.srv.opts.stats) > 0 {
			c.statsEnd(st.Err())
		}
	}
	c.conn.srv.handlers.Done()
}

// recover ends a call whose handler panicked with INTERNAL.
func (c *serverCall) recover(err *error) {
	if v := recover(); v != nil {
		*err = c.conn.srv.recovered(c.shape.path, v)
	}
}
