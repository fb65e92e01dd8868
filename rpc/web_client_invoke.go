package rpc

import (
	"context"
	"errors"
	"io"

	"github.com/tarn-go/tarn/rpc/internal/backoff"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/status"
)

// invoke makes a unary call in another protocol than gRPC.
func (w *webClient) invoke(ctx context.Context, method string, req, reply any, opts callOptions) error {
	if w.closed.Err() != nil {
		opts.notSent(req)
		opts.report(nil, ErrClientConnClosing)
		return ErrClientConnClosing
	}
	var c call
	if err := c.init(w.cc, ctx, method, opts); err != nil {
		opts.notSent(req)
		c.reportEnd(nil, err)
		return err
	}
	for failures := 0; ; {
		c.retry.count()
		x := w.exchange(&c, kindUnary)
		err := x.unary(req, reply)
		again := false
		if err != nil && w.closed.Err() == nil {
			if again = x.mayWait(); again {
				failures++
				if again = c.wait(backoff.Delay(w.cc.opts.connect.Backoff, failures)); !again {
					err = waited(c.ctx, err)
				}
			} else if c.ctx.Err() == nil && c.retry.matters() {
				again, err = c.await(c.retry.judge(status.Code(err), maybeProcessed, x.trailer), err)
			}
		}
		if !again {
			c.reportEnd(x, err)
			return err
		}
	}
}

// mayWait reports whether a call that could not connect waits for the server.
func (x *webExchange) mayWait() bool {
	return x.call.info.waitForReady && x.unreached && x.call.ctx.Err() == nil
}

// reportEnd is report for calls of a webClient.
func (c *call) reportEnd(x *webExchange, err error) {
	c.end(err)
	// A call that has failed without an exchange may not have read its options.
	if x != nil && !c.info.after {
		return
	}
	var t outcome
	if x != nil && x.reached() {
		t = x
	}
	c.opts.report(t, err)
}

// unary makes one attempt.
func (x *webExchange) unary(req, reply any) (err error) {
	c := x.call
	if c.statsOn() {
		c.statsBegin(kindUnary)
		defer func() { x.statsEnd(err) }()
	}
	ctx, cancel := x.web.context(c)
	defer cancel()
	m, info, err := x.encode(req)
	if err != nil {
		return err
	}
	body := &requestMessage{m: m}
	defer func() { body.end(x.conns) }()
	r, err := x.request(ctx)
	if err != nil {
		return err
	}
	if !x.get(r, &body.m) {
		x.upload = body
		body.set(r)
	}
	if c.statsOn() {
		x.statsOnly(req, info)
	}
	if err := x.send(r); err != nil {
		return err
	}
	defer x.release()
	return x.reply(reply)
}

// reply reads the single message of a response, and its end.
func (x *webExchange) reply(v any) error {
	first := x.next()
	if first.err == nil {
		if after := x.next(); after.err == nil {
			after.msg.Free()
			first.msg.Free()
			first = received{err: errTwoMessages}
		} else if !errors.Is(after.err, io.EOF) {
			first.msg.Free()
			first = after
		}
	} else if errors.Is(first.err, io.EOF) {
		first.err = errNoMessage
	}
	if first.err != nil {
		return x.receiveError(&first)
	}
	return x.decode(&first, v)
}

// receiveError is the status error for the reason why next returned no message.
func (x *webExchange) receiveError(r *received) error {
	switch {
	case errors.Is(r.err, errStatus):
		return x.call.failure(x.status)
	case errors.Is(r.err, message.ErrTooLarge), errors.Is(r.err, message.ErrTruncated), errors.Is(r.err, message.ErrFlag),
		errors.Is(r.err, errNoMessage), errors.Is(r.err, errTwoMessages):
		return r.status(x.call.info.maxRecv, x.in.responses())
	}
	return x.failure(r.err)
}
