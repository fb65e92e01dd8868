package rpc

import (
	"context"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Invoke makes a unary call: req is sent, reply is filled. It returns when the
// call has ended; the error is a status of package grpc/status. Generated stubs
// call it.
func (cc *ClientConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if cc.unary != nil {
		return cc.unary(ctx, method, req, reply, cc.shadow, cc.invoker, cc.withDefaults(opts)...)
	}
	return cc.invoke(ctx, method, req, reply, opts)
}

// withDefaults puts the default call options in front, for interceptors to see.
func (cc *ClientConn) withDefaults(opts []grpc.CallOption) []grpc.CallOption {
	if len(cc.opts.callOptions) == 0 {
		return opts
	}
	return append(cc.opts.callOptions[:len(cc.opts.callOptions):len(cc.opts.callOptions)], opts...)
}

func (cc *ClientConn) invoke(ctx context.Context, method string, req, reply any, opts []grpc.CallOption) error {
	var c call
	if err := c.init(cc, ctx, method, opts); err != nil {
		c.report(nil, err)
		return err
	}
	for {
		c.retry.count()
		a := cc.attempts.get()
		a.unary, a.maxRecv = true, c.info.maxRecv
		err, seen, whole := c.tryUnary(a, req, reply)
		if err == nil || !c.again(a, err, seen) {
			c.report(a, err)
			c.recycle(a, whole)
			return err
		}
		c.recycle(a, whole)
	}
}

// recycle keeps an attempt whose stream ended on both sides.
func (c *call) recycle(a *attempt, w wholeness) {
	if w == whole {
		c.cc.attempts.put(a)
	}
}

// again decides on another attempt, and waits for its time.
func (c *call) again(a *attempt, err error, seen sight) bool {
	if c.ctx.Err() != nil {
		return false
	}
	code := status.Code(err)
	if seen == maybeSeen && c.retry.policy == nil {
		return false
	}
	answered := false
	a.mu.Lock()
	answered = a.header != nil
	a.mu.Unlock()
	if answered {
		return false
	}
	v := c.retry.judge(code, seen, a.trailerMD())
	return v.again && c.wait(v.wait)
}

// wholeness says whether an attempt's stream ended on both sides by itself.
type wholeness uint8

const (
	broken wholeness = iota
	whole
)

// tryUnary makes one attempt of a unary call.
func (c *call) tryUnary(a *attempt, req, reply any) (error, sight, wholeness) {
	if c.statsOn() {
		c.statsBegin(kindUnary)
	}
	conn, err := c.connection()
	var m message.Message
	var info payloadInfo
	if err == nil {
		m, info, err = encodeMessage(c.cc.opts.pool, c.info.codec, c.info.compressor, c.info.maxSend, req)
	}
	if err != nil { // the attempt was never used
		if c.statsOn() {
			c.statsEnd(a, err)
		}
		c.attemptEnded(nil, err)
		return err, maybeSeen, whole
	}
	out := h2.Out{Data: m.Buf, Rest: m.Chain, Ending: h2.End}
	seen, err := c.open(a, conn, &out)
	if err != nil {
		a.abandon()
		if c.statsOn() {
			c.statsEnd(a, err)
		}
		c.attemptEnded(nil, err)
		return err, seen, broken
	}
	if c.statsOn() {
		c.statsOutPayload(req, info)
	}
	w := whole
	if err = a.waitEnd(c.ctx); err != nil {
		w = broken
		err = status.FromContextError(err).Err()
	} else {
		if a.err != nil || a.status != nil {
			w = broken
		}
		err = c.unaryResult(a, reply)
	}
	if w == whole {
		a.st.Release()
	} else {
		a.close()
	}
	if c.statsOn() {
		c.statsEnd(a, err)
	}
	c.attemptEnded(a, err)
	return err, a.seen, w
}

// unaryResult reads the outcome of an attempt that has ended.
func (c *call) unaryResult(a *attempt, reply any) error {
	if a.status != nil {
		return c.failure(a.status)
	}
	if c.statsOn() {
		c.statsInHeader(a)
	}
	a.mu.Lock() // against the reading goroutine's last unlock; nothing comes any more
	m, kind, size, ok, err := a.in.Next(a.maxRecv)
	a.mu.Unlock()
	r := received{m, kind, size, err}
	switch {
	case err != nil:
		return receiveError(&r, a.maxRecv, "receiving the reply")
	case !ok && a.in.Len() > 0:
		return status.Error(codes.Internal, "unexpected EOF: the server ended the call inside a message")
	case !ok:
		return status.Error(codes.Internal, "cardinality violation: received no response message from non-server-streaming RPC")
	case a.in.Len() > 0:
		r.msg.Free()
		return status.Error(codes.Internal, "cardinality violation: expected <EOF> for non server-streaming RPCs, but received another message")
	}
	comp, err := a.compressor()
	if err != nil {
		r.msg.Free()
		return err
	}
	n, err := decodeMessage(c.cc.opts.pool, c.info.codec, comp, a.maxRecv, &r, reply)
	if err == nil && c.statsOn() {
		c.statsInPayload(reply, n, &r)
	}
	return err
}
