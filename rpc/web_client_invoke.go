package rpc

import (
	"context"
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
	if seen, err = x.openUnary(x.call, req); err != nil {
		return seen, err
	}
	return maybeProcessed, x.finishUnary(x.call, reply)
}

// openUnary sends the request of a unary call. On error the attempt has ended. The call is x.call.
func (x *webExchange) openUnary(c *call, req any) (seen progress, err error) {
	if c.statsOn() {
		c.statsBegin(kindUnary)
	}
	opened := false
	defer func() {
		if !opened { // an error, or a function of the application's has panicked or ended the goroutine
			x.closeUnary(c, err)
		}
	}()
	var ctx context.Context
	ctx, x.cancel = x.web.context(c)
	m, info, err := x.encode(req)
	if err != nil {
		return maybeProcessed, err
	}
	x.content = &requestMessage{m: m}
	r, err := x.request(ctx)
	if err != nil {
		return maybeProcessed, err
	}
	if !x.get(r, &x.content.m) {
		x.upload = x.content
		x.content.set(r)
	}
	if c.statsOn() {
		x.statsOnly(req, info)
	}
	if err := x.send(r); err != nil {
		return x.seen, err
	}
	opened = true
	return maybeProcessed, nil
}

// waitAnswer implements unaryAttempt: the status of a failed call may follow a header that says nothing. The end of the call's context
// makes it return.
func (x *webExchange) waitAnswer(<-chan struct{}) bool {
	x.first, x.read = x.next(), true
	return x.first.err == nil
}

// unanswered implements unaryAttempt.
func (x *webExchange) unanswered(*call) (progress, error) {
	r := x.first
	if errors.Is(r.err, io.EOF) {
		r.err = errNoMessage
	}
	return maybeProcessed, x.receiveError(&r)
}

// finishUnary reads the response, fills reply, and ends the attempt.
func (x *webExchange) finishUnary(c *call, reply any) (err error) {
	defer func() { x.closeUnary(c, err) }()
	return x.reply(reply)
}

// closeUnary ends an attempt.
func (x *webExchange) closeUnary(c *call, err error) {
	x.first.msg.Free()
	x.first = received{}
	x.release()
	if x.content != nil {
		x.content.end(x.conns)
	}
	if x.cancel != nil {
		x.cancel()
	}
	if c.statsOn() {
		x.statsEnd(err)
	}
}

// reply reads the single message of a response, and its end.
func (x *webExchange) reply(v any) error {
	if !x.read {
		x.first, x.read = x.next(), true
	}
	first := x.first
	x.first = received{}
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
	case r.refused():
		return r.status(x.call.info.maxRecv, x.in.responses())
	}
	return x.failure(r.err)
}

// refused reports whether a message has come and is refused.
func (r *received) refused() bool {
	for _, why := range [...]error{message.ErrTooLarge, message.ErrTruncated, message.ErrFlag, errNoMessage, errTwoMessages} {
		if errors.Is(r.err, why) {
			return true
		}
	}
	return false
}
