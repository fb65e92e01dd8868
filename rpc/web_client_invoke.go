package rpc

import (
	"errors"
	"io"

	"github.com/tarn-go/tarn/rpc/internal/message"
)

// answered implements tried: the caller sees the header of a unary call after its end.
func (x *webExchange) answered() bool { return false }

// recycle implements tried.
func (x *webExchange) recycle(*ClientConn) {}

// unary makes one attempt.
func (x *webExchange) unary(req, reply any) (seen progress, err error) {
	c := x.call
	if c.statsOn() {
		c.statsBegin(kindUnary)
		defer func() { x.statsEnd(err) }()
	}
	ctx, cancel := x.web.context(c)
	defer cancel()
	m, info, err := x.encode(req)
	if err != nil {
		return maybeProcessed, err
	}
	body := &requestMessage{m: m}
	defer func() { body.end(x.conns) }()
	r, err := x.request(ctx)
	if err != nil {
		return maybeProcessed, err
	}
	if !x.get(r, &body.m) {
		x.upload = body
		body.set(r)
	}
	if c.statsOn() {
		x.statsOnly(req, info)
	}
	if err := x.send(r); err != nil {
		return x.seen, err
	}
	defer x.release()
	return maybeProcessed, x.reply(reply)
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
