package rpc

import (
	"context"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/workers"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// This file has a serverCall as the job of a worker and as a carrier: what its handler's goroutine does. server_call.go has what the goroutine that
// reads the connection does, and server_response.go the header and the status.

var _ serverCarrier = (*serverCall)(nil)

// Conn is the connection of the call.
func (c *serverCall) Conn() *h2.Conn { return c.conn.h2c }

// Handle runs the handler of c to its end. It reports whether the response has been
// queued and is to be sent by the caller.
func (c *serverCall) Handle(w *workers.Worker[*serverCall]) (unsent bool) {
	c.st.Started()
	var first *received
	if c.shape.isUnary() {
		// The request's memory stays with the worker: a serverCall, which is garbage after its call, is smaller without it.
		first = workers.Scratch[received](w)
	}
	c.serve(c, first)
	c.conn.srv.handlers.Done()
	return c.unsent
}

// Exited is Handle's end when the handler does not return because of
// runtime.Goexit.
func (c *serverCall) Exited() {
	defer c.conn.srv.handlers.Done()
	c.exited(c)
}

func (c *serverCall) server() *Server        { return c.conn.srv }
func (c *serverCall) asked() *requested      { return &c.shape.requested }
func (c *serverCall) peer() *peer.Peer       { return &c.conn.peer }
func (c *serverCall) socket() *entity.Socket { return c.conn.entity }
func (c *serverCall) counts() count          { return requestCount }
func (c *serverCall) prefix() int            { return message.PrefixLen }

// lent: what has been sent refers to the request's memory.
func (c *serverCall) lent() lentUntil { return lentUntilSent }

// SendMsg sends one message. A *tarn.Chain or *tarn.Buffer is sent as it is and emptied.
func (c *serverCall) SendMsg(v any) error { return c.send(c, c.shape.codec, v) }

// RecvMsg waits for one message. io.EOF means that the client has sent its last message. For a method without
// client streaming it also waits for the request's end after the message.
func (c *serverCall) RecvMsg(v any) error { return c.receive(c, v) }

// SendHeader sends the header now, with md. It fails when the header has been sent.
func (c *serverCall) SendHeader(md metadata.MD) error { return c.sendHeader(c, md) }

func (c *serverCall) decodeUnary(v any) error { return c.decodeFirst(c, v) }

func (c *serverCall) invoke() (reply any, err error) {
	m := c.shape.method
	return m.unary.Handler(m.impl, c.user, c.decodeUnary, c.conn.srv.unary)
}

// only returns the message of a unary call, which has arrived before the handler is started.
func (c *serverCall) only() received {
	// Without mu: the request has ended, so the reading goroutine does not touch it any more.
	r := c.inbox.only()
	c.in.Free()
	return r
}

func (c *serverCall) compression() (encoding.Compressor, string) {
	if c.comp != nil {
		return c.comp.c, c.comp.name
	}
	return c.shape.compressor, c.shape.encoding
}

// offered returns the names in the request's grpc-accept-encoding.
func (c *serverCall) offered() []string {
	var out []string
	for _, v := range c.incoming()["grpc-accept-encoding"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

func (c *serverCall) compressBy(comp encoding.Compressor, name string) {
	fields := []h2.Field{{Name: ":status", Value: httpOK}, {Name: "content-type", Value: header.ContentType(c.shape.subtype)}}
	if comp != nil {
		fields = append(fields, h2.Field{Name: "grpc-encoding", Value: name})
	}
	c.comp = &sendCompressor{comp, name, newResponseBlock(fields)}
}

// interrupt wakes a goroutine that waits for the peer's window.
func (c *serverCall) interrupt() { c.cancel(context.Canceled) }

// abandon resets the stream, as net/http does.
func (c *serverCall) abandon() { c.handle.Reset(h2.InternalError) }
