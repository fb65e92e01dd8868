package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/balance"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// clientConn is one connection of a client: the h2.Handler of its streams.
type clientConn struct {
	cc      *ClientConn
	sub     *balance.SubConn
	perRPC  []credentials.PerRPCCredentials // of all calls on the connection
	scheme  string
	name    string  // the server's in its certificate, and :authority, unless a call has its own
	routes  *routes // the client's, unless scheme or name are others
	h2c     *h2.Conn
	peer    peer.Peer
	ctx     context.Context // for statistics
	decided chan struct{}   // closed when the server's SETTINGS have come, or gone is set before; nil after connect
	decide  sync.Once
	greeted atomic.Bool // the server's SETTINGS have come
	gone    atomic.Bool // no more calls can begin
	why     error       // once gone is set
	once    sync.Once
	own     atomic.Int32 // running calls of the client itself (health checks, producers), with at most one stream each
	streams atomic.Int32 // streaming calls that have not ended
	placing placing
	entity  *entity.Socket // in channelz; nil: not listed
	every   time.Duration  // interval of pings to a silent server; 0: none
}

// connect opens a connection for s and waits for the server's SETTINGS. The error says what failed: the network,
// the handshake, or the peer's HTTP/2. stop is closed when the connection is no longer wanted.
func (cc *ClientConn) connect(ctx context.Context, stop <-chan struct{}, s *balance.SubConn, addr *resolver.Address) (*clientConn, error) {
	s.Entity().SetTarget(addr.Addr)
	c := &clientConn{cc: cc, sub: s, perRPC: cc.opts.perRPCFor(s), name: cc.serverName(addr), decided: make(chan struct{})}
	// The dialer, credentials and stats handlers are the application's. Neither Close nor a call waits for one that ignores ctx, or that
	// has called Close. stop may be the end of ctx's parent, which is seen before ctx's.
	nc, err := aside(stop, func() (net.Conn, error) { return c.secure(ctx, addr) }, c.abandon, func() error { <-ctx.Done(); return ctx.Err() })
	if err != nil {
		return nil, err
	}
	maker, every := cc.newest()
	c.h2c, c.every = maker.Make(nc, c), every
	allowIdleTLS(c.h2c, c.peer.AuthInfo)
	c.entity = s.Entity().AddSocket(entityConn(&c.peer, c.name, c.h2c))
	if err := cc.conns.add(c); err != nil {
		c.h2c.Close()
	}
	c.h2c.Start(c.ended)
	select {
	case <-c.decided:
		if !c.greeted.Load() {
			return nil, fmt.Errorf("transport: the connection ended before the server preface was received: %w", c.cause())
		}
	case <-ctx.Done():
		c.h2c.Close()
		return nil, fmt.Errorf("transport: failed to receive the server preface in time: %w", ctx.Err())
	}
	c.decided = nil
	return c, nil
}

// secure dials addr, makes the handshake, and reports the connection to the stats handlers.
func (c *clientConn) secure(ctx context.Context, addr *resolver.Address) (net.Conn, error) {
	nc, err := c.cc.dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("transport: Error while dialing: %w", err)
	}
	secured := false
	defer func() {
		if !secured { // an error, or a function of the application's has ended the goroutine
			nc.Close()
		}
	}()
	c.peer.Addr, c.peer.LocalAddr = nc.RemoteAddr(), nc.LocalAddr()
	sc, err := c.handshake(ctx, nc, addr)
	if err != nil {
		return nil, err
	}
	c.ctx = context.Background()
	for _, h := range c.cc.opts.stats {
		c.ctx = h.TagConn(c.ctx, &stats.ConnTagInfo{RemoteAddr: c.peer.Addr, LocalAddr: c.peer.LocalAddr})
		h.HandleConn(c.ctx, &stats.ConnBegin{Client: true})
	}
	secured = true
	return sc, nil
}

// abandon closes what secure has returned too late.
func (c *clientConn) abandon(nc net.Conn) {
	nc.Close()
	c.statsEnd()
}

func (c *clientConn) statsEnd() {
	for _, h := range c.cc.opts.stats {
		h.HandleConn(c.ctx, &stats.ConnEnd{Client: true})
	}
}

func (c *clientConn) cause() error {
	if err := c.h2c.Err(); err != nil {
		return err
	}
	return h2.ErrClosed
}

// handshake runs the security handshake on nc. On error nc remains the caller's.
func (c *clientConn) handshake(ctx context.Context, nc net.Conn, addr *resolver.Address) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		return nil, err
	}
	creds := c.creds()
	c.scheme, c.routes = schemeOf(creds), &c.cc.routes
	if !c.plain() {
		c.routes = new(routes)
	}
	sc, info, err := creds.ClientHandshake(handshakeContext(ctx, addr), c.name, nc)
	if err != nil {
		return nil, fmt.Errorf("transport: authentication handshake failed: %w", err)
	}
	c.peer.AuthInfo = info
	if err := checkLevel(info, c.perRPC); err != nil {
		sc.Close()
		return nil, err
	}
	if err := sc.SetDeadline(time.Time{}); err != nil {
		sc.Close()
		return nil, err
	}
	return sc, nil
}

// checkLevel refuses a connection whose credentials say that it is not private, when per-RPC credentials need
// that it is. One without a level passes, as in grpc-go.
func checkLevel(info credentials.AuthInfo, perRPC []credentials.PerRPCCredentials) error {
	leveled, ok := info.(interface {
		GetCommonAuthInfo() credentials.CommonAuthInfo
	})
	if !ok {
		return nil
	}
	level := leveled.GetCommonAuthInfo().SecurityLevel
	if level == credentials.InvalidSecurityLevel || level >= credentials.PrivacyAndIntegrity {
		return nil
	}
	for _, p := range perRPC {
		if p.RequireTransportSecurity() {
			return errors.New(insecureCredentials)
		}
	}
	return nil
}

// plain reports whether requests on c have the client's :scheme and :authority.
func (c *clientConn) plain() bool { return c.scheme == c.cc.scheme && c.name == c.cc.authority }

// schemeOf is the :scheme of requests on connections made with creds: as in grpc-go, https for "tls" alone, and so http for ALTS
// and local connections.
func schemeOf(creds credentials.TransportCredentials) string {
	if creds.Info().SecurityProtocol == "tls" {
		return "https"
	}
	return "http"
}

// creds are the balancer's for this SubConn, otherwise the client's. A bundle without transport credentials leaves the client's in use, those of
// its bundle included; in grpc-go a client with a bundle would then send in the clear.
func (c *clientConn) creds() credentials.TransportCredentials {
	if b := c.sub.CredsBundle(); b != nil {
		if t := b.TransportCredentials(); t != nil {
			return t
		}
	}
	return c.cc.opts.creds
}

// perRPCFor returns the credentials of all calls on one connection of s. Like creds, those of the balancer's bundle take the place of those of
// the client's.
func (o *dialOptions) perRPCFor(s *balance.SubConn) []credentials.PerRPCCredentials {
	b := s.CredsBundle()
	if b == nil {
		return o.perRPC
	}
	all := slices.Clip(o.perRPC[:len(o.perRPC)-o.bundled])
	if p := b.PerRPCCredentials(); p != nil {
		all = append(all, p)
	}
	return all
}

// ended cleans up when the connection has ended.
func (c *clientConn) ended(why error) {
	c.placing.cancel()
	c.leave(why)
	if c.cc.conns.remove(c) {
		defer c.cc.conns.wg.Done()
	}
	c.entity.Remove()
	c.statsEnd()
}

// leave marks the connection as closed for new calls, for the reason why: no pick returns it afterwards.
func (c *clientConn) leave(why error) {
	c.once.Do(func() {
		c.why = why
		c.gone.Store(true)
		c.decide.Do(func() { close(c.decided) })
		c.sub.Lost(c, why)
	})
}

// Usable implements balance.Conn.
func (c *clientConn) Usable() error {
	if c.gone.Load() {
		return status.Error(codes.Unavailable, fmt.Sprintf("rpc: the connection to %v has ended", c.peer.Addr))
	}
	return nil
}

// DisconnectError implements balance.Conn.
func (c *clientConn) DisconnectError() string { return disconnectError(c.why) }

// Shutdown implements balance.Conn.
func (c *clientConn) Shutdown() { c.h2c.Shutdown("") }

// Peer implements balance.Conn.
func (c *clientConn) Peer() *peer.Peer { return &c.peer }

// OnSettings makes the connection ready.
func (c *clientConn) OnSettings(*h2.Conn) {
	c.greeted.Store(true)
	c.decide.Do(func() { close(c.decided) })
}

// OnGoAway ends the connection's use for new calls; running calls continue.
func (c *clientConn) OnGoAway(_ *h2.Conn, why *h2.GoAwayError) {
	if why.Code == h2.EnhanceYourCalm && why.Debug == "too_many_pings" {
		c.cc.tooManyPings(c.every)
	}
	c.leave(why)
	c.h2c.Shutdown("")
}

// OnIdle does nothing.
func (c *clientConn) OnIdle(*h2.Conn) {}

// OnHeaders passes a response's header or trailer to its attempt.
func (c *clientConn) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	c.placing.cancel()
	if a, ok := s.Value.(*grpcAttempt); ok {
		a.gotHeaders(s, h, e)
	}
}

// OnData passes a piece of the response to its attempt.
func (c *clientConn) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	c.placing.cancel()
	a, ok := s.Value.(*grpcAttempt)
	if !ok {
		b.Free()
		return
	}
	a.gotData(s, b, e)
}

// OnReset ends the attempt.
func (c *clientConn) OnReset(s *h2.Stream, err error) {
	c.placing.cancel()
	if a, ok := s.Value.(*grpcAttempt); ok {
		a.gotReset(s, err)
	}
}

// Land returns the memory for the next DATA of s.
func (c *clientConn) Land(s *h2.Stream, n int) []byte {
	c.placing.cancel()
	if n < placeFrom {
		return nil
	}
	a, ok := s.Value.(*grpcAttempt)
	if !ok {
		return nil
	}
	b := a.placeData()
	c.placing.begin(&a.inbox, b)
	return b
}

// Landed reports its arrival.
func (c *clientConn) Landed(s *h2.Stream, n int, e h2.Ending) {
	c.placing.filled()
	s.Value.(*grpcAttempt).placedData(s, n, e)
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
