package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
)

// webStats calls the server's statistics handlers for a call that ServeHTTP serves, with the events of a call
// of Serve.
type webStats struct {
	handlers []stats.Handler
	ctx      context.Context
	begun    time.Time
	encoding string
}

// beginWebStats tags the call's context and reports its header and its begin. It returns nil, which calls nothing, if the server has no
// statistics handlers.
func beginWebStats(c *webCall) *webStats {
	s := newWebStats(c)
	if s == nil {
		return nil
	}
	for _, h := range s.handlers {
		h.HandleRPC(s.ctx, &stats.Begin{BeginTime: s.begun, IsClientStream: c.clientStreams(), IsServerStream: c.serverStreams()})
	}
	return s
}

// statsWebUnregistered reports a request for a method that no service has. As in grpc-go it neither begins nor ends.
func statsWebUnregistered(c *webCall) {
	c.ctx = (*webContext)(c)
	if c.checkMetadata() == nil {
		newWebStats(c).outTrailer(nil)
	}
}

// newWebStats tags the call's context and reports its header.
func newWebStats(c *webCall) *webStats {
	if len(c.srv.opts.stats) == 0 {
		return nil
	}
	s := &webStats{handlers: c.srv.opts.stats, begun: time.Now()}
	if c.incoming != nil {
		s.encoding = c.incoming.Name()
	}
	for _, h := range s.handlers {
		c.ctx = h.TagRPC(c.ctx, &stats.RPCTagInfo{FullMethodName: c.path})
	}
	s.ctx = c.ctx
	wire := 0
	for name, values := range c.eachField {
		for _, v := range values {
			wire += len(name) + len(v)
		}
	}
	p, md := (*webContext)(c).peer(), (*webContext)(c).metadata()
	for _, h := range s.handlers {
		h.HandleRPC(s.ctx, &stats.InHeader{FullMethod: c.path, RemoteAddr: p.Addr, LocalAddr: p.LocalAddr,
			Compression: s.encoding, WireLength: wire, Header: md.Copy()})
	}
	return s
}

func (s *webStats) inPayload(v any, size, wire int) {
	if s == nil {
		return
	}
	for _, h := range s.handlers {
		h.HandleRPC(s.ctx, &stats.InPayload{Payload: v, Length: size, CompressedLength: wire, WireLength: wire, RecvTime: time.Now()})
	}
}

func (s *webStats) outPayload(v any, info payloadInfo) {
	if s == nil {
		return
	}
	for _, h := range s.handlers {
		h.HandleRPC(s.ctx, &stats.OutPayload{Payload: v, Length: info.plain, CompressedLength: info.packed, WireLength: info.wire, SentTime: time.Now()})
	}
}

func (s *webStats) outHeader(md metadata.MD) {
	if s == nil {
		return
	}
	for _, h := range s.handlers {
		h.HandleRPC(s.ctx, &stats.OutHeader{Header: md.Copy(), Compression: s.encoding})
	}
}

func (s *webStats) outTrailer(md metadata.MD) {
	if s == nil {
		return
	}
	for _, h := range s.handlers {
		h.HandleRPC(s.ctx, &stats.OutTrailer{Trailer: md.Copy()})
	}
}

func (s *webStats) end(err error) {
	if s == nil {
		return
	}
	for _, h := range s.handlers {
		h.HandleRPC(s.ctx, &stats.End{BeginTime: s.begun, EndTime: time.Now(), Error: err})
	}
}
