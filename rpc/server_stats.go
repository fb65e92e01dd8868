package rpc

import (
	"errors"
	"io"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/stats"
)

// The stats* methods call the server's stats handlers as grpc-go does. They are called only when there is a
// handler.

func (c *serverCall) statsBegin(h *h2.Header) {
	begun := time.Now()
	c.seen = &observed{begun: begun}
	c.statsInHeader(h)
	clientStream, serverStream := c.kinds()
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.Begin{BeginTime: begun, IsClientStream: clientStream, IsServerStream: serverStream})
	}
}

// statsUnregistered reports a request for a method that no service has. As in grpc-go it neither begins
// nor ends.
func (c *serverConn) statsUnregistered(sh *shape, h *h2.Header) {
	call := &serverCall{conn: c, shape: sh, extra: h.Extra}
	call.user = call
	call.statsInHeader(h)
	call.statsOutTrailer()
}

func (c *serverCall) statsInHeader(h *h2.Header) {
	wire := 0
	for _, fs := range [...][]h2.Field{h.Fields, h.Extra} {
		for i := range fs {
			wire += len(fs[i].Name) + len(fs[i].Value)
		}
	}
	for _, sh := range c.conn.srv.opts.stats {
		c.user = sh.TagRPC(c.user, &stats.RPCTagInfo{FullMethodName: c.shape.path})
	}
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.InHeader{FullMethod: c.shape.path, RemoteAddr: c.conn.peer.Addr,
			LocalAddr: c.conn.peer.LocalAddr, Compression: c.shape.encoding, WireLength: wire, Header: c.incoming().Copy()})
	}
}

func (c *serverCall) kinds() (clientStream, serverStream bool) {
	m := c.shape.method
	switch {
	case m == nil:
		return true, true
	case m.stream == nil:
		return false, false
	}
	return m.stream.ClientStreams, m.stream.ServerStreams
}

func (c *serverCall) statsInPayload(v any, size int, r *received) {
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.InPayload{Payload: v, Length: size, CompressedLength: r.size,
			WireLength: r.size + message.PrefixLen, RecvTime: time.Now()})
	}
}

func (c *serverCall) statsOutPayload(v any, info payloadInfo) {
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.OutPayload{Payload: v, Length: info.plain, CompressedLength: info.packed,
			WireLength: info.wire, SentTime: time.Now()})
	}
}

func (c *serverCall) statsOutHeader() {
	enc := c.shape.encoding
	if c.comp != nil {
		enc = c.comp.name
	}
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.OutHeader{Header: c.header.Copy(), Compression: enc})
	}
}

func (c *serverCall) statsOutTrailer() {
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.OutTrailer{Trailer: c.trailer.Copy()})
	}
}

func (c *serverCall) statsEnd(err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.End{BeginTime: c.seen.begun, EndTime: time.Now(), Error: err})
	}
}
