package rpc

import (
	"context"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// call is one call of a client, over all its attempts.
type call struct {
	request
	opts     callOptions
	retry    retrying
	encoded  *encoded           // of a unary call that sends in place
	tried    bool               // it has been encoded
	waited   bool               // for a picker; not yet reported to the stats handlers
	delayed  bool               // by the first answer of the resolver; for the stats handlers
	cancel   context.CancelFunc // of a timeout from the service config; or nil
	begun    time.Time          // of the attempt, for statistics
	peered   context.Context    // tagged with the attempt's peer, for stats handlers; nil until it is known
	entity   *entity.Channel    // counts the call; nil: not counted
	selected *selection         // of a config selector; or nil
}

// init decides everything that does not depend on a connection. If c.selected.intercepted(), it leaves that to settle. Whatever it returns, the
// call has begun, and report ends it.
func (c *call) init(cc *ClientConn, ctx context.Context, method string, opts callOptions) error {
	*c = call{request: request{cc: cc, ctx: ctx, method: method}, entity: cc.channel.Entity()}
	bad := c.merge(opts)
	cc.channel.CallBegins()
	c.entity.Begin()
	c.seen = cc.opts.observe.begin(method, resolving)
	if cc.web != nil && cc.web.closed.Err() != nil {
		return ErrClientConnClosing
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	cfg, mc, err := c.chooseConfig()
	if err != nil || c.selected.intercepted() {
		return err
	}
	return c.settle(cfg, mc, bad)
}

// merge makes opts the call's options, and info their sum, which nothing but the settings of the call's method changes later. The error fails the
// call when it is settled.
func (c *call) merge(opts callOptions) error {
	c.opts, c.info = opts, opts.first.info
	return c.info.apply(opts.rest)
}

// settle checks the call's options, of which merge has said bad, and adds the settings of its method, mc, which may be nil.
func (c *call) settle(cfg *serviceConfig, mc *methodConfig, bad error) error {
	cc := c.cc
	if err := c.checkOptions(bad); err != nil {
		return err
	}
	if mc != nil && mc.waitForReady != nil && !c.info.waitSet {
		c.info.waitForReady = *mc.waitForReady
	}
	if c.info.inPlace != nil && cc.web != nil {
		return status.Errorf(codes.Unimplemented, "rpc: caller set SendInPlace, which clients of %v do not support", cc.opts.protocol)
	}
	c.retry = cc.policyFor(cfg, mc)
	if mc != nil {
		mc.limit(&c.info)
		if mc.timeout != nil {
			c.ctx, c.cancel = context.WithTimeout(c.ctx, *mc.timeout)
		}
	}
	c.at, c.deadline = c.ctx.Deadline()
	c.tagged = c.ctx
	if c.cancel != nil && c.ctx.Err() != nil {
		return status.FromContextError(c.ctx.Err()).Err() // a timeout of zero: there is no attempt
	}
	return nil
}

// open begins an attempt; a then owns the stream. It takes ownership of out's DATA. On error, seen says
// whether the server may have received any of it.
func (c *call) open(a *grpcAttempt, conn *clientConn, out *h2.Out) (seen progress, err error) {
	space := fieldSpaces.Get().(*[]h2.Field)
	defer putFields(space)
	defer freeOut(out) // also if a hook panics
	if err := c.fill(out, a, conn, space, c.retry.attempts-1); err != nil {
		return maybeProcessed, err
	}
	if c.statsOn() {
		c.statsOutHeader(&conn.peer, conn.name)
	}
	return c.request.open(a, conn, out)
}

// methods returns the service config, once the resolver has answered for the first time since the client was
// IDLE.
func (c *call) methods(ctx context.Context) (*serviceConfig, error) {
	for {
		if cfg := c.cc.channel.Config(); cfg != nil {
			return callsOf(cfg), nil
		}
		c.delayed = true
		if err := c.cc.channel.AwaitConfig(ctx); err != nil {
			return nil, err
		}
	}
}

// wait waits before the next attempt; false when the call has ended.
func (c *call) wait(d time.Duration) bool {
	if d <= 0 {
		return c.ctx.Err() == nil
	}
	defer c.cc.channel.CallWaits()()
	c.seen.set(pausing)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// await waits for the time of another attempt, if v says that there is one. Otherwise it returns the call's error: err, or, as grpc-go does,
// the context's when that ends meanwhile.
func (c *call) await(v verdict, err error) (bool, error) {
	if !v.again || c.wait(v.wait) {
		return v.again, err
	}
	return false, status.FromContextError(c.ctx.Err()).Err()
}

// report ends the call, and calls the options that asked for its end. t is the last attempt; nil: there was none.
func (c *call) report(t outcome, err error) {
	if !c.selected.reports() {
		if c.cancel != nil {
			c.cancel()
		}
		return
	}
	c.end(err)
	if !c.info.after {
		return
	}
	if t != nil && !t.reached() {
		t = nil
	}
	c.opts.report(t, err)
}

// end ends what init has begun, whatever the protocol.
func (c *call) end(err error) {
	c.seen.end(err, nil)
	if c.cancel != nil {
		c.cancel()
	}
	if err == nil {
		c.retry.throttle.succeeded()
	}
	c.entity.End(entity.OutcomeOf(err))
	c.selected.end()
}

// outcome is what call options report: the last attempt of a call.
type outcome interface {
	headerMD() metadata.MD
	trailerMD() metadata.MD
	server() *peer.Peer // nil: no server was reached, or the round tripper does not say which
	reached() bool      // a stream or request to a server was begun
	// received is what a balancer learns of a response: the trailer, which may be nil if it has no metadata, and whether a header or trailer has come.
	received() (trailer metadata.MD, any bool)
}

// report reports the end of a call, which need not have begun, to its options. t is nil when no attempt reached a server: what the options of
// header, trailer and peer point to stays as it is then.
func (o *callOptions) report(t outcome, err error) {
	for _, opts := range o.lists() {
		for _, o := range opts {
			reportTo(o, t, err)
		}
	}
}

func reportTo(o grpc.CallOption, t outcome, err error) {
	switch o := o.(type) {
	case grpc.HeaderCallOption:
		if t != nil {
			*o.HeaderAddr = t.headerMD()
		}
	case grpc.TrailerCallOption:
		if t != nil {
			*o.TrailerAddr = t.trailerMD()
		}
	case grpc.PeerCallOption:
		if t == nil {
			break
		}
		if p := t.server(); p != nil {
			*o.PeerAddr = *p
		}
	case grpc.OnFinishCallOption:
		o.OnFinish(err)
	}
}
