package rpc

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/timers"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
)

// serverConn is one connection of a server: the h2.Handler of its streams.
type serverConn struct {
	srv       *Server
	h2c       *h2.Conn
	nc        net.Conn
	web       h2.Handler      // of streams that are not gRPC's; nil before the first. Used by the reading goroutine only
	ctx       context.Context // parent of every call's values; from stats handlers
	peer      peer.Peer
	timers    timers.Heap
	setup     *time.Timer // fires when the preface has not arrived in time; until OnSettings
	placing   placing
	admission admission
	entity    *entity.Socket // in channelz; nil: not listed

	mu   sync.Mutex
	age  *time.Timer
	over bool
}

// newServerConn registers a connection of HTTP/2.
func newServerConn(s *Server, in *incoming) *serverConn {
	nc := in.Conn
	c := &serverConn{srv: s, ctx: in.ctx, admission: admission{most: s.opts.gatherMost}}
	c.peer = peer.Peer{Addr: nc.RemoteAddr(), LocalAddr: nc.LocalAddr(), AuthInfo: in.auth}
	h2c := s.maker.Make(nc, c)
	c.h2c, c.nc = h2c, nc
	c.entity = s.entity.AddSocket(entityConn(&c.peer, "", h2c))
	if in.prefaceRead {
		h2c.PrefaceRead()
	}
	allowIdleTLS(h2c, c.peer.AuthInfo)
	c.setup = time.AfterFunc(time.Until(in.deadline), func() { h2c.Close() })
	c.startAging(s.opts.keepalive)
	return c
}

// allowIdleTLS lets a connection that grpc-go's TLS credentials have wrapped release its buffers while it is idle.
func allowIdleTLS(c *h2.Conn, info credentials.AuthInfo) {
	if _, ok := info.(credentials.TLSInfo); ok {
		c.AllowIdle()
	}
}

// h2 translates the options to the connection's configuration.
func (o *serverOptions) h2() h2.Config {
	cfg := h2.Config{Pool: o.pool, Log: o.log, MaxStreams: o.maxStreams, MaxHeaderList: o.maxHeaderList,
		Window: o.window, ConnWindow: o.connWindow, Unread: unreadMost, Limits: h2.Limits{Resets: o.maxResets},
		IdleResets:  h2.Permit, // as grpc-go: gRPC C++ makes them when it cancels calls
		FieldBlanks: h2.Permit} // as grpc-go, whose clients and others send metadata with them
	if o.fixedWindow {
		fixWindow(&cfg)
	}
	cfg.Keepalive = h2.Keepalive{Time: o.keepalive.Time, Timeout: o.keepalive.Timeout, WithoutStream: h2.Permit}
	if cfg.Keepalive.Time == 0 {
		cfg.Keepalive.Time = defaultServerKeepalive
	}
	cfg.IdleTimeout, cfg.IdleDebug = o.keepalive.MaxConnectionIdle, maxIdle
	cfg.Policy = h2.PingPolicy{MinTime: o.policy.MinTime, WithoutStream: h2.Deny}
	if o.policy.PermitWithoutStream {
		cfg.Policy.WithoutStream = h2.Permit
	}
	return cfg
}

const defaultServerKeepalive = 2 * time.Hour

// ended cleans up when the connection has ended.
func (c *serverConn) ended(error) {
	s := c.srv
	c.placing.cancel()
	if c.setup != nil {
		c.setup.Stop()
	}
	c.timers.Stop()
	c.mu.Lock()
	c.over = true
	if c.age != nil {
		c.age.Stop()
	}
	c.mu.Unlock()
	c.entity.Remove()
	s.mu.Lock()
	delete(s.conns, c)
	if len(s.conns) == 0 {
		s.workers.Close()
	}
	s.mu.Unlock()
	s.untag(c.ctx)
}

// startAging closes the connection when it has been alive too long, as keepalive.ServerParameters describe.
func (c *serverConn) startAging(p keepalive.ServerParameters) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.MaxConnectionAge > 0 {
		// Jitter of a tenth either way, so that connections made together do not all end together.
		jitter := time.Duration((rand.Float64()*0.2 - 0.1) * float64(p.MaxConnectionAge))
		c.age = time.AfterFunc(p.MaxConnectionAge+jitter, func() { c.tooOld(p.MaxConnectionAgeGrace) })
	}
}

// The debug data of GOAWAYs in order, as grpc-go sends it.
const (
	gracefulStop = "graceful_stop"
	maxAge       = "max_age"
	maxIdle      = "max_idle"
)

func (c *serverConn) tooOld(grace time.Duration) {
	c.h2c.Shutdown(maxAge)
	c.mu.Lock()
	defer c.mu.Unlock()
	if grace > 0 && !c.over {
		c.age = time.AfterFunc(grace, func() { c.h2c.Close() })
	}
}

// OnSettings stops the timer of the set-up.
func (c *serverConn) OnSettings(*h2.Conn) {
	c.setup.Stop()
	c.setup = nil
}

// OnGoAway does nothing: a client that sends GOAWAY opens no more streams.
func (c *serverConn) OnGoAway(*h2.Conn, *h2.GoAwayError) {}

// OnIdle does nothing: h2.Config.IdleTimeout ends the connection.
func (c *serverConn) OnIdle(*h2.Conn) {}

// OnHeaders begins a call, or ends its request when the client sends trailers.
func (c *serverConn) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	c.placing.cancel()
	if call, ok := s.Value.(*serverCall); ok {
		call.gotData(tarn.Buffer{}, e)
		return
	}
	if s.Value != nil || !speaksGRPC(h) {
		c.other().OnHeaders(s, h, e)
		return
	}
	c.begin(s, h, e)
}

// OnData passes a piece of the request to its call.
func (c *serverConn) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	c.placing.cancel()
	call, ok := s.Value.(*serverCall)
	switch {
	case ok:
		call.gotData(b, e)
	case c.web != nil:
		c.web.OnData(s, b, e)
	default: // refused in OnHeaders, with its body still arriving
		b.Free()
	}
}

// OnReset cancels the call.
func (c *serverConn) OnReset(s *h2.Stream, err error) {
	c.placing.cancel()
	if call, ok := s.Value.(*serverCall); ok {
		call.reset()
	} else if c.web != nil {
		c.web.OnReset(s, err)
	}
}

// Land returns the memory for the next DATA of s.
func (c *serverConn) Land(s *h2.Stream, n int) []byte {
	c.placing.cancel()
	if n < placeFrom {
		return nil
	}
	call, ok := s.Value.(*serverCall)
	if !ok {
		return nil
	}
	b := call.placeData()
	c.placing.begin(&call.inbox, b)
	return b
}

// Landed reports its arrival.
func (c *serverConn) Landed(s *h2.Stream, n int, e h2.Ending) {
	c.placing.filled()
	s.Value.(*serverCall).placedData(n, e)
}
