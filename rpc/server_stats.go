package rpc

import (
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/stats"
)

// The stats* methods call the server's statistics handlers as grpc-go does, over every carrier. They are called only when there is a handler.

// statsArrived notes what the handlers get of the request's header, which has wire bytes. It calls no handler: they may block, and it may run on the
// goroutine that reads a connection.
func (r *runner) statsArrived(wire int) {
	r.seen = &observed{begun: time.Now(), wire: wire}
}

// statsBegin reports the request's header, and that the call has begun.
func (r *runner) statsBegin(c serverCarrier) {
	r.statsInHeader(c)
	q := c.asked()
	for _, h := range c.server().opts.stats {
		h.HandleRPC(r.user, &stats.Begin{BeginTime: r.seen.begun, IsClientStream: q.clientStreams(), IsServerStream: q.serverStreams()})
	}
}

// statsUnregistered reports a request for a method that no service has. As in grpc-go it neither begins nor ends.
func (r *runner) statsUnregistered(c serverCarrier) {
	r.statsInHeader(c)
	r.statsOutTrailer(c)
}

func (r *runner) statsInHeader(c serverCarrier) {
	handlers, q, p := c.server().opts.stats, c.asked(), c.peer()
	for _, h := range handlers {
		r.user = h.TagRPC(r.user, &stats.RPCTagInfo{FullMethodName: q.path})
	}
	for _, h := range handlers {
		h.HandleRPC(r.user, &stats.InHeader{FullMethod: q.path, RemoteAddr: p.Addr, LocalAddr: p.LocalAddr, Compression: q.encoding,
			WireLength: r.seen.wire, Header: c.incoming().Copy()})
	}
}

func (r *runner) statsInPayload(c serverCarrier, v any, size int, got *received) {
	for _, h := range c.server().opts.stats {
		h.HandleRPC(r.user, &stats.InPayload{Payload: v, Length: size, CompressedLength: got.size, WireLength: got.size + c.prefix(), RecvTime: time.Now()})
	}
}

func (r *runner) statsOutPayload(c serverCarrier, v any, info payloadInfo) {
	for _, h := range c.server().opts.stats {
		h.HandleRPC(r.user, &stats.OutPayload{Payload: v, Length: info.plain, CompressedLength: info.packed, WireLength: info.wire, SentTime: time.Now()})
	}
}

// statsOutHeader is called by carriers.
func (r *runner) statsOutHeader(c serverCarrier) {
	_, name := c.compression()
	for _, h := range c.server().opts.stats {
		h.HandleRPC(r.user, &stats.OutHeader{Header: r.header.Copy(), Compression: name})
	}
}

func (r *runner) statsOutTrailer(c serverCarrier) {
	for _, h := range c.server().opts.stats {
		h.HandleRPC(r.user, &stats.OutTrailer{Trailer: r.trailer.Copy()})
	}
}

func (r *runner) statsEnd(c serverCarrier, err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	for _, h := range c.server().opts.stats {
		h.HandleRPC(r.user, &stats.End{BeginTime: r.seen.begun, EndTime: time.Now(), Error: err})
	}
}
