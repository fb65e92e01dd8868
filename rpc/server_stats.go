package rpc

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/stats"
)

// The stats* methods call the server's stats handlers as grpc-go does. They are called only when there is a
// handler.

// statsArrived notes what the handlers get of the request's header. It runs on the reading goroutine, and calls no handler: they may block.
func (c *serverCall) statsArrived(h *h2.Header) {
	c.seen = &observed{begun: time.Now(), wire: wireLength(h)}
}

// wireLength is the length of a header list in bytes.
func wireLength(h *h2.Header) (n int) {
	for _, fs := range [...][]h2.Field{h.Fields, h.Extra} {
		for i := range fs {
			n += len(fs[i].Name) + len(fs[i].Value)
		}
	}
	return n
}

// statsBegin reports the request's header, and that the call has begun.
func (c *serverCall) statsBegin() {
	c.statsInHeader(c.seen.wire)
	clientStream, serverStream := c.kinds()
	for _, sh := range c.conn.srv.opts.stats {
		sh.HandleRPC(c.user, &stats.Begin{BeginTime: c.seen.begun, IsClientStream: clientStream, IsServerStream: serverStream})
	}
}

// statsUnregistered reports a request for a method that no service has. As in grpc-go it neither begins
// nor ends. It runs on the reading goroutine, and calls the handlers on another.
func (c *serverConn) statsUnregistered(sh *shape, h *h2.Header) {
	call := &serverCall{conn: c, shape: sh, extra: slices.Clone(h.Extra)}
	call.user = call
	wire := wireLength(h)
	c.srv.handlers.Add(1)
	go func() {
		defer c.srv.handlers.Done()
		call.statsInHeader(wire)
		call.statsOutTrailer()
	}()
}

func (c *serverCall) statsInHeader(wire int) {
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
