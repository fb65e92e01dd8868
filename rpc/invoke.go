package rpc

import (
	"context"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/backoff"
	"github.com/tarn-go/tarn/rpc/internal/balance"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/status"
)

// Invoke makes a unary call: req is sent, reply is filled. It returns when the
// call has ended; the error is a status of package grpc/status. Generated stubs
// call it.
func (cc *ClientConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if cc.around.unary != nil {
		return cc.interceptUnary(ctx, method, req, reply, opts)
	}
	return cc.invoke(ctx, method, req, reply, cc.given(opts))
}

func (cc *ClientConn) invoke(ctx context.Context, method string, req, reply any, opts callOptions) error {
	var c call
	if err := c.init(cc, ctx, method, opts); err != nil {
		c.notSent(req)
		c.report(nil, err)
		return err
	}
	if c.selected.intercepted() {
		return c.invokeIntercepted(req, reply)
	}
	if c.retry.hedging != nil {
		return c.hedged(req, reply)
	}
	return c.unary(req, reply)
}

// unary makes the attempts of a unary call.
func (c *call) unary(req, reply any) error {
	over := false
	defer func() {
		if !over { // a function of the application's has panicked or ended the goroutine
			c.end(errExited)
		}
	}()
	for {
		c.retry.count()
		t, seen, err := c.tryUnary(req, reply)
		again := false
		if err != nil {
			again, err = c.again(t, err, seen)
		}
		if !again {
			c.dropEncoded(req)
			over = true
			c.report(t, err)
		}
		t.recycle(c.cc)
		if !again {
			return err
		}
	}
}

// tried is an attempt of a unary call that has ended: an *grpcAttempt or a *webExchange.
type tried interface {
	outcome
	answered() bool         // no other attempt may follow
	recycle(cc *ClientConn) // it is not used any more
}

// again decides on another attempt after one that failed with err, and waits for its time. If there is none, it returns the call's error.
func (c *call) again(t tried, err error, seen progress) (bool, error) {
	if c.ctx.Err() != nil || err == ErrClientConnClosing {
		return false, err
	}
	if seen == unreached && c.info.waitForReady {
		return c.awaitServer(err)
	}
	code := status.Code(err)
	if seen == maybeProcessed && !c.retry.matters() {
		return false, err
	}
	if t.answered() {
		return false, err
	}
	return c.await(c.retry.judge(code, seen, t.trailerMD()), err)
}

// awaitServer waits for the time of another attempt to connect. err is the last one's.
func (c *call) awaitServer(err error) (bool, error) {
	c.retry.unreached++
	if c.wait(backoff.Delay(c.cc.opts.connect.Backoff, int(c.retry.unreached))) {
		c.retry.attempts-- // the policy counts those that have reached a server
		return true, nil
	}
	return false, balance.WaitedError(c.ctx, err)
}

// unaryAttempt is an attempt of a unary call that a policy follows from outside: *grpcAttempt or *webExchange. c is its call.
type unaryAttempt interface {
	tried
	// openUnary begins the attempt and sends the request. On error the attempt has ended, and seen says how far the server got.
	openUnary(c *call, req any) (seen progress, err error)
	// waitAnswer waits until the attempt has been answered, ends, or done is closed, and reports whether it has been answered.
	waitAnswer(done <-chan struct{}) bool
	// unanswered returns the result of an attempt that has ended without an answer.
	unanswered(c *call) (progress, error)
	// finishUnary waits for the response, fills reply, and ends the attempt.
	finishUnary(c *call, reply any) error
	// closeUnary ends the attempt with err.
	closeUnary(c *call, err error)
}

var (
	_ unaryAttempt = (*grpcAttempt)(nil)
	_ unaryAttempt = (*webExchange)(nil)
)

// reuse says whether an attempt may be used for another call.
type reuse uint8

const (
	discard  reuse = iota // a callback may still be called for it
	reusable              // it was not used, or its stream ended on both sides
)

// tryUnary makes one attempt of a unary call, over the client's carrier.
func (c *call) tryUnary(req, reply any) (tried, progress, error) {
	if c.cc.web != nil {
		own := *c // on the heap, as c is not
		x := c.cc.web.exchange(&own, kindUnary)
		seen, err := x.unary(req, reply)
		return x, seen, err
	}
	a := c.cc.attempts.get()
	a.mode, a.limit = onlyOne, c.info.maxRecv
	seen, r, err := c.openUnary(a, req)
	if err == nil {
		r, err = c.finishUnary(a, reply)
		seen = a.seen
	}
	a.reuse = r
	return a, seen, err
}

// openUnary begins an attempt of a unary call and sends the request. On error the attempt has ended.
func (c *call) openUnary(a *grpcAttempt, req any) (seen progress, r reuse, err error) {
	over := false
	defer func() {
		if !over { // a function of the application's has panicked or ended the goroutine
			a.release()
			c.pickEnded(balancer.DoneInfo{Err: errExited})
		}
	}()
	if c.statsOn() {
		c.statsBegin(kindUnary)
	}
	r = reusable
	conn, m, info, err := c.pickAndEncode(req)
	if err == nil {
		r = discard
		out := h2.Out{Data: m.Buf, Rest: m.Chain, Ending: h2.End}
		if seen, err = c.open(a, conn, &out); err != nil {
			a.close()
		}
	}
	if c.statsOn() {
		if err == nil {
			c.statsOutPayload(c.statsContext(), req, info)
		} else {
			c.statsEnd(a, err)
		}
	}
	if err != nil {
		c.attemptEnded(nil, err)
	}
	over = true
	return seen, r, err
}

// finishUnary waits for the response to an attempt, fills reply, and ends the attempt.
func (c *call) finishUnary(a *grpcAttempt, reply any) (r reuse, err error) {
	over := false
	defer func() {
		if !over { // a function of the application's has panicked or ended the goroutine
			a.release()
			c.pickEnded(balancer.DoneInfo{Err: errExited})
		}
	}()
	if !a.waitEnd(c.ctx.Done()) {
		err = status.FromContextError(c.ctx.Err()).Err()
	} else {
		if a.endedWell() {
			r = reusable
		}
		err = c.unaryResult(a, reply)
	}
	over = true
	c.closeUnary(a, r, err)
	return r, err
}

// closeUnary ends an attempt that was opened.
func (c *call) closeUnary(a *grpcAttempt, r reuse, err error) {
	over := false
	defer func() {
		if !over { // a function of the application's has panicked or ended the goroutine
			c.pickEnded(balancer.DoneInfo{Err: errExited})
		}
	}()
	if r == reusable {
		a.st.Release()
	} else {
		a.release()
	}
	if c.statsOn() {
		c.statsEnd(a, err)
	}
	c.attemptEnded(a, err)
	over = true
}

// pickAndEncode returns the connection of an attempt and the request, to be freed by the caller.
func (c *call) pickAndEncode(req any) (*clientConn, message.Message, payloadInfo, error) {
	if c.retry.transparent {
		// The connection that was picked for the last attempt may have ended while the request was encoded. This
		// could go on for ever if encoding takes longer than connections live.
		m, info, err := c.encodeUnary(req)
		if err != nil {
			return nil, m, info, err
		}
		conn, err := c.connection()
		if err != nil {
			m.Free()
		}
		return conn, m, info, err
	}
	conn, err := c.connection()
	if err != nil {
		return nil, message.Message{}, payloadInfo{}, err
	}
	m, info, err := c.encodeUnary(req)
	return conn, m, info, err
}

// encodeUnary returns the request, to be freed by the caller.
func (c *call) encodeUnary(req any) (message.Message, payloadInfo, error) {
	if c.info.inPlace != nil || c.encoded != nil { // a hedged call has encoded it already
		return c.encodeOnce(req)
	}
	return encodeMessage(c.cc.opts.pool, c.info.codec, c.info.compressor, c.info.maxSend, req)
}

// unaryResult reads the result of an attempt that has ended.
func (c *call) unaryResult(a *grpcAttempt, reply any) error {
	if c.statsOn() {
		c.statsInHeader(a)
	}
	r, n, err := c.result(a, reply)
	if err == nil && c.statsOn() {
		c.statsInPayload(reply, n, &r)
	}
	return err
}
