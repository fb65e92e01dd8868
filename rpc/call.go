package rpc

import (
	"context"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// call is one call of a client, over all its attempts.
type call struct {
	cc       *ClientConn
	ctx      context.Context
	method   string
	info     callInfo
	opts     callOptions
	retry    retrying
	encoded  *encoded // of a unary call that sends in place
	tried    bool     // it has been encoded
	deadline bool     // at is set
	waited   bool     // for a picker; not yet reported to the stats handlers
	delayed  bool     // by the first answer of the resolver; for the stats handlers
	at       time.Time
	cancel   context.CancelFunc // of a timeout from the service config; or nil
	begun    time.Time          // of the attempt, for statistics
	tagged   context.Context    // ctx with what stats handlers put in, attempt by attempt
	peered   context.Context    // tagged with the attempt's peer, for stats handlers; nil until it is known
	picked   pick               // result of the picker for the attempt
	seen     *observed          // for the debug page; nil: calls are not observed
	entity   *entity.Channel    // counts the call; nil: not counted
	selected *selection         // of a config selector; or nil
	only     *clientConn        // the connection of an own call; nil: the call is the application's
}

// init decides everything that does not depend on a connection. If c.selected.intercepted(), it leaves that to settle. Whatever it returns, the
// call has begun, and report ends it.
func (c *call) init(cc *ClientConn, ctx context.Context, method string, opts callOptions) error {
	*c = call{cc: cc, ctx: ctx, method: method, entity: cc.channel.Entity()}
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
	return nil
}

// initOwn is init for a call that the client itself makes on conn, for a health check or a producer. Nothing that the application has set for
// its calls applies to it: service config, default options, policies, stats handlers, a config selector, observation.
func (c *call) initOwn(conn *clientConn, ctx context.Context, method string, opts []grpc.CallOption) error {
	cc := conn.cc
	*c = call{cc: cc, ctx: ctx, tagged: ctx, method: method, only: conn}
	bad := c.merge(cc.passedOn(opts))
	conn.own.Add(1)
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	c.at, c.deadline = ctx.Deadline()
	return c.checkOptions(bad)
}

// checkOptions fails if merge has returned bad, or the options together make no call. Otherwise the call may take what they give it.
func (c *call) checkOptions(bad error) error {
	if bad != nil {
		return bad
	}
	if c.info.lending != nil {
		c.info.lease = c.info.lending.begin()
	}
	if no, ok := c.info.compressor.(unregistered); ok {
		return status.Errorf(codes.Internal, "grpc: Compressor is not installed for requested grpc-encoding %q", no.name)
	}
	return c.info.chooseCodec()
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

// authority is that of the call's options, or that which the balancer gives the attempt (gRFC A81); empty: the connection's.
func (c *call) authority() string {
	if a := c.info.authority; a != "" || c.picked.md == nil {
		return a
	}
	if given := c.picked.md.Get(":authority"); len(given) > 0 {
		return given[0]
	}
	return ""
}

// checkAuthority checks an authority that is not the connection's.
func (c *call) checkAuthority(conn *clientConn) error {
	authority := c.authority()
	if authority == "" {
		return nil
	}
	v, ok := conn.peer.AuthInfo.(credentials.AuthorityValidator)
	if !ok {
		return status.Errorf(codes.Unavailable, "rpc: credentials type %q does not implement the AuthorityValidator interface, but authority override specified with CallAuthority call option", authType(conn.peer))
	}
	if err := v.ValidateAuthority(authority); err != nil {
		return status.Errorf(codes.Unavailable, "failed to validate authority %q: %v", authority, err)
	}
	return nil
}

func authType(p peer.Peer) string {
	if p.AuthInfo == nil {
		return ""
	}
	return p.AuthInfo.AuthType()
}

// open begins an attempt; a then owns the stream. It takes ownership of out's DATA. On error, seen says
// whether the server may have received any of it.
func (c *call) open(a *grpcAttempt, conn *clientConn, out *h2.Out) (seen progress, err error) {
	r := conn.route(c.method, &c.info, c.authority())
	out.Block = r.block
	a.conn = conn
	if c.info.lease == nil {
		a.replies = &r.replies
	}
	space := fieldSpaces.Get().(*[]h2.Field)
	defer putFields(space)
	defer freeOut(out) // also if a hook panics
	*space, err = c.cc.callFields(*space, c, conn, c.retry.attempts-1)
	if err != nil {
		return maybeProcessed, err
	}
	if err := conn.fits(r.size, *space); err != nil {
		return maybeProcessed, err
	}
	out.Fields = *space
	if c.statsOn() {
		c.statsOutHeader(&conn.peer, conn.name)
	}
	a.begun()
	carries := out.Data.Len() > 0 || out.Rest != nil
	c.seen.set(opening)
	st, err := conn.h2c.Open(c.ctx, a, out)
	if err == nil {
		a.opened(st)
		c.seen.set(receiving)
		conn.began()
		if carries {
			conn.entity.MessageSent()
		}
		return maybeProcessed, nil
	}
	return c.openFailed(a, conn, out, err)
}

// fits fails if a header list of a block of size bytes and fields is longer than the server's SETTINGS_MAX_HEADER_LIST_SIZE,
// or than what a server that has announced none is sent.
func (c *clientConn) fits(size int, fields []h2.Field) error {
	size += fieldsSize(fields)
	limit := c.h2c.PeerHeaderList()
	if limit == 0 {
		if err := checkUnannounced(size, c.cc.opts.unannounced, fields); err != nil {
			return status.Errorf(codes.Internal, "rpc: request header %v", err)
		}
		return nil
	}
	if size > limit {
		return status.Errorf(codes.Internal, "header list size to send violates the maximum size (%d bytes) set by server", limit)
	}
	return nil
}

// openFailed says how far the server got with an attempt that could not be opened, and returns its error.
func (c *call) openFailed(a *grpcAttempt, conn *clientConn, out *h2.Out, err error) (progress, error) {
	a.mu.Lock()
	a.sent = out.Opened
	ended, seen, st := a.end != nil, a.seen, a.status
	var r received
	if ended && st == nil && a.mode == onlyOne {
		r = a.only()
	}
	a.mu.Unlock()
	r.msg.Free()
	switch {
	// If a has ended, the server answered before it had the whole request.
	case ended && st != nil:
		return seen, c.failure(st)
	case r.err != nil:
		return seen, r.status(a.limit, responseCount)
	case ended:
		return seen, status.Error(codes.Internal, "rpc: the server ended the call before it had received the request")
	case c.ctx.Err() != nil:
		return maybeProcessed, status.FromContextError(c.ctx.Err()).Err()
	case !out.Opened && conn.h2c.Unusable() != nil: // also when the peer closed it without a GOAWAY
		conn.retire(err)
		return notSent, status.Error(codes.Unavailable, "the connection has ended: "+err.Error())
	}
	rst, seen := resetStatus(err)
	return seen, c.failure(rst)
}

// failure is the status of an attempt that has ended: DEADLINE_EXCEEDED also when the server, which enforces
// the same deadline, cancelled first.
func (c *call) failure(st *status.Status) error {
	if st.Code() == codes.OK {
		return nil
	}
	if st.Code() == codes.Canceled || st.Code() == codes.Unavailable {
		if err := c.ctx.Err(); err != nil {
			return status.FromContextError(err).Err()
		}
		if st.Code() == codes.Canceled && c.late() {
			return status.FromContextError(context.DeadlineExceeded).Err()
		}
	}
	return st.Err()
}

// late reports whether the call's deadline has passed. Its context may still have to note that.
func (c *call) late() bool { return c.deadline && time.Until(c.at) <= 0 }

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
	c.seen.end(err)
	if c.cancel != nil {
		c.cancel()
	}
	if err == nil {
		c.retry.throttle.succeeded()
	}
	c.entity.End(entity.OutcomeOf(err))
	if c.only != nil {
		c.only.own.Add(-1) // its stream has been released
	}
	c.selected.end()
}

// outcome is what call options report: the last attempt of a call.
type outcome interface {
	headerMD() metadata.MD
	trailerMD() metadata.MD
	server() *peer.Peer // nil: no server was reached, or the round tripper does not say which
	reached() bool      // a stream or request to a server was begun
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
