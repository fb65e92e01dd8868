package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
)

// kind says which sides of a call stream.
type kind struct{ client, server bool }

var kindUnary = kind{}

func kindOf(d *grpc.StreamDesc) kind { return kind{d.ClientStreams, d.ServerStreams} }

// The stats* methods call the client's stats handlers as grpc-go does. They are called only when there is a
// handler.

func (c *call) statsOn() bool { return len(c.cc.opts.stats) > 0 }

func (c *call) statsBegin(k kind) {
	c.tagged = c.statsTag()
	c.statsBegun(k)
}

// statsTag returns the context of an attempt that begins.
func (c *call) statsTag() context.Context {
	c.begun = time.Now()
	ctx := c.ctx
	for _, h := range c.cc.opts.stats {
		ctx = h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: c.method, FailFast: !c.info.waitForReady, NameResolutionDelay: c.delayed})
	}
	return ctx
}

// statsBegun reports the attempt of the context that statsTag has returned.
func (c *call) statsBegun(k kind) {
	c.peered = nil
	for _, h := range c.cc.opts.stats {
		h.HandleRPC(c.tagged, &stats.Begin{Client: true, BeginTime: c.begun, FailFast: !c.info.waitForReady,
			IsClientStream: k.client, IsServerStream: k.server, IsTransparentRetryAttempt: c.retry.transparent})
	}
}

// statsContext is the context of an attempt's events: from OutHeader on it has the peer, which otelgrpc records.
func (c *call) statsContext() context.Context {
	if c.peered != nil {
		return c.peered
	}
	return c.tagged
}

// withoutPeer is a context without its peer.
type withoutPeer struct{ context.Context }

// Value implements context.Context.
func (c withoutPeer) Value(key any) any {
	if key == grpcgo.PeerKey {
		return nil
	}
	return c.Context.Value(key)
}

// statsOutHeader reports the request's header, which is sent to p; a p without an address is not known. authority is that of p, which calls
// and picks may override.
func (c *call) statsOutHeader(p *peer.Peer, authority string) {
	md, ok := metadata.FromOutgoingContext(c.tagged) // a copy
	if !ok {
		md = metadata.MD{}
	}
	for k, v := range c.picked.md {
		md.Append(k, v...)
	}
	md.Set("user-agent", c.agentName())
	enc := ""
	if c.info.compressor != nil {
		enc = c.info.compressor.Name()
	}
	if p.Addr != nil {
		c.peered = peer.NewContext(c.tagged, p)
	} else if _, ok := peer.FromContext(c.tagged); ok {
		c.peered = withoutPeer{c.tagged} // it is the caller's
	}
	for _, h := range c.cc.opts.stats {
		out := &stats.OutHeader{Client: true, FullMethod: c.method, RemoteAddr: p.Addr, LocalAddr: p.LocalAddr, Compression: enc, Header: md}
		grpcgo.SetAuthority(out, cmp.Or(c.authority(), authority))
		h.HandleRPC(c.statsContext(), out)
	}
}

// statsOutPayload reports a message that has been sent. ctx is the attempt's statsContext.
func (c *call) statsOutPayload(ctx context.Context, v any, info payloadInfo) {
	for _, h := range c.cc.opts.stats {
		h.HandleRPC(ctx, &stats.OutPayload{Client: true, Payload: v, Length: info.plain,
			CompressedLength: info.packed, WireLength: info.wire, SentTime: time.Now()})
	}
}

// statsInHeader reports the response's header, if one has come, once.
func (c *call) statsInHeader(a *grpcAttempt) {
	a.mu.Lock()
	sh, n, reported := a.header, a.headerLen, a.headerReported
	a.headerReported = sh != nil
	a.mu.Unlock()
	if sh == nil || reported {
		return
	}
	md := a.headerMD()
	for _, h := range c.cc.opts.stats {
		h.HandleRPC(c.statsContext(), &stats.InHeader{Client: true, WireLength: n, Compression: sh.encoding, Header: md})
	}
}

func (c *call) statsInPayload(v any, size int, r *received) {
	for _, h := range c.cc.opts.stats {
		h.HandleRPC(c.statsContext(), &stats.InPayload{Client: true, Payload: v, Length: size, CompressedLength: r.size,
			WireLength: r.size + message.PrefixLen, RecvTime: time.Now()})
	}
}

// statsEnd reports the end of an attempt over gRPC.
func (c *call) statsEnd(a *grpcAttempt, err error) {
	c.statsInHeader(a)
	a.mu.Lock()
	n := a.trailerLen
	a.mu.Unlock()
	c.statsEnded(a.trailerMD(), n, err)
}

// statsEnded reports the trailer of an attempt, of n bytes, if one has come, and the end.
func (c *call) statsEnded(trailer metadata.MD, n int, err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	ctx := c.statsContext()
	for _, h := range c.cc.opts.stats {
		if trailer != nil {
			h.HandleRPC(ctx, &stats.InTrailer{Client: true, WireLength: n, Trailer: trailer})
		}
		h.HandleRPC(ctx, &stats.End{Client: true, BeginTime: c.begun, EndTime: time.Now(), Trailer: trailer, Error: err})
	}
}
