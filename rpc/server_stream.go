package rpc

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var (
	errHeaderSent = status.Error(codes.Internal, "rpc: the response header has been sent already")
	errCallOver   = status.Error(codes.Canceled, "rpc: the handler of this call has returned")
	errDecoded    = status.Error(codes.Internal, "rpc: caller decoded the request a second time, or after the handler had returned")
)

// serverStream is a serverCall as the grpc.ServerStream of a streaming handler.
type serverStream serverCall

var _ grpc.ServerStream = (*serverStream)(nil)

func (s *serverStream) call() *serverCall { return (*serverCall)(s) }

// Context is the call's context.
func (s *serverStream) Context() context.Context { return s.user }

// SetHeader adds to the response header.
func (s *serverStream) SetHeader(md metadata.MD) error { return s.call().SetHeader(md) }

// SendHeader sends the response header.
func (s *serverStream) SendHeader(md metadata.MD) error { return s.call().SendHeader(md) }

// SetTrailer adds to the trailer.
func (s *serverStream) SetTrailer(md metadata.MD) { s.call().SetTrailer(md) }

// SendHeader sends the header now, with md. It fails when the header has been sent.
func (c *serverCall) SendHeader(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if err := c.lastHeader(md); err != nil {
		return err
	}
	var out h2.Out
	if err := c.putHeader(&out); err != nil {
		return err
	}
	return c.sendError(c.st.Write(c, &out))
}

// putHeader adds the response header to out unless it has been sent. It fails, and the header is not sent, if that
// is longer than what the client takes. sendMu is held.
func (c *serverCall) putHeader(out *h2.Out) error {
	if c.sentHeader {
		return nil
	}
	block := c.shape.response
	if c.comp != nil {
		block = c.comp.response
	}
	if len(c.header) > 0 {
		out.Fields = appendMetadata(nil, c.header)
		if err := c.conn.fits("header", block.size, out.Fields); err != nil {
			out.Fields = nil
			return err
		}
	}
	c.sentHeader = true
	out.Block = block.Block
	if len(c.conn.srv.opts.stats) > 0 {
		c.statsOutHeader()
	}
	return nil
}

// fits fails if a header list of a block of size bytes and fields is longer than the client's SETTINGS_MAX_HEADER_LIST_SIZE,
// or than what a client that has announced none is sent. A client that gets one all the same may end the connection, and with
// it all its calls.
func (c *serverConn) fits(what string, size int, fields []h2.Field) error {
	size += fieldsSize(fields)
	limit := c.h2c.PeerHeaderList()
	if limit == 0 {
		if err := checkUnannounced(size, c.srv.opts.unannounced, fields); err != nil {
			return status.Errorf(codes.Internal, "rpc: response %s %v", what, err)
		}
		return nil
	}
	if size > limit {
		return status.Errorf(codes.Internal, "rpc: response %s of %d bytes; the client takes %d", what, size, limit)
	}
	return nil
}

// sendError converts a failed write to the handler's error. A write may find the stream reset by DeadlinePassed, which is about to end
// the context; the call has to end with its deadline then, whichever goroutine is faster.
func (c *serverCall) sendError(err error) error {
	if at := c.timer.At(); err == h2.ErrStreamDone && !at.IsZero() && time.Until(at) <= 0 {
		c.cancel(context.DeadlineExceeded)
	}
	return sendError(c, err)
}

// sendError converts a failed write to the error for the handler of the call whose context is ctx.
func sendError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := ctx.Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	var reset *h2.StreamError
	if errors.As(err, &reset) && reset.Fault == h2.Told {
		return status.FromContextError(context.Canceled).Err() // the reset is about to end the context, too
	}
	return status.Error(codes.Unavailable, "rpc: the response could not be sent: "+err.Error())
}

// SendMsg sends one message. A *tarn.Chain or *tarn.Buffer is sent as it is and emptied.
func (s *serverStream) SendMsg(v any) error { return s.send(s.shape.codec, v) }

func (s *serverStream) send(codec message.Codec, v any) error {
	return s.call().abort(s.sendOpen(codec, v))
}

// sendOpen is send without the end of the call after an error.
func (s *serverStream) sendOpen(codec message.Codec, v any) error {
	c := s.call()
	m, info, err := c.encode(codec, v)
	if err != nil {
		return err
	}
	if err := c.sendMessage(m); err != nil {
		return err
	}
	c.conn.entity.MessageSent()
	if len(c.conn.srv.opts.stats) > 0 {
		c.statsOutPayload(v, info)
	}
	return nil
}

// sendMessage sends m, of which it takes ownership.
func (c *serverCall) sendMessage(m message.Message) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	out := h2.Out{Data: m.Buf, Rest: m.Chain}
	defer freeOut(&out)
	if c.released {
		return errCallOver
	}
	if err := c.putHeader(&out); err != nil {
		return err
	}
	c.seen.set(sending)
	defer c.seen.set(working)
	return c.sendError(c.st.Write(c, &out))
}

// payloadInfo holds a message's lengths for statistics.
type payloadInfo struct{ plain, packed, wire int }

// encode makes the framed message of v.
func (c *serverCall) encode(codec message.Codec, v any) (message.Message, payloadInfo, error) {
	comp := c.shape.compressor
	if c.comp != nil {
		comp = c.comp.c
	}
	return encodeMessage(c.conn.srv.opts.pool, codec, comp, c.conn.srv.opts.maxSend, v)
}

// encodeReply is encode for the result of a unary handler, which does not change any more: its long bytes
// fields are sent from their own memory. They may be views of a lent request, whose memory is then freed when the
// last byte has been sent.
func (c *serverCall) encodeReply(reply any) (message.Message, payloadInfo, error) {
	if _, ok := c.shape.codec.(message.Proto); !ok || c.shape.compressor != nil || c.comp != nil {
		return c.encode(c.shape.codec, reply)
	}
	codec := message.Codec(message.Spliced{})
	if c.lease != nil {
		c.recvMu.Lock() // a goroutine that the handler left running may be decoding the request
		defer c.recvMu.Unlock()
		if c.lease.Size() >= message.SpliceFrom {
			codec = message.Spliced{Lent: c.lease}
		}
	}
	return encodeMessage(c.conn.srv.opts.pool, codec, nil, c.conn.srv.opts.maxSend, reply)
}

// RecvMsg waits for one message. io.EOF means that the client has sent its last message. For a method without
// client streaming it also waits for the request's end after the message.
func (s *serverStream) RecvMsg(v any) error { return s.call().abort(s.recv(v)) }

func (s *serverStream) recv(v any) error {
	c := s.call()
	c.recvMu.Lock()
	defer c.recvMu.Unlock()
	if c.lease != nil {
		c.lease.Release() // the message before this one
	}
	c.seen.set(receiving)
	defer c.seen.set(working)
	r := c.next()
	single := c.shape.method != nil && !c.shape.method.stream.ClientStreams
	if r.err == io.EOF && (!single || c.gotOne) {
		return io.EOF
	}
	if r.err == io.EOF {
		r.err = errNoMessage
	}
	if err := c.decode(&r, v); err != nil || !single {
		return err
	}
	c.gotOne = true
	switch after := c.next(); after.err {
	case io.EOF:
		return nil
	case nil:
		after.msg.Free()
		return (&received{err: errTwoMessages}).status(c.limit, requestCount)
	default:
		return after.status(c.limit, requestCount)
	}
}

// decodeUnary is the function with which a unary handler decodes its request. It is bound to the call, so
// that a handler that keeps it cannot reach another call's request.
func (c *serverCall) decodeUnary(v any) error {
	c.mu.Lock()
	r := received{err: errDecoded}
	if first := c.first; first != nil {
		r = *first
		*first, c.first = received{}, nil
	}
	c.mu.Unlock()
	if c.lease != nil { // release waits for this
		c.recvMu.Lock()
		defer c.recvMu.Unlock()
	}
	return c.decode(&r, v)
}

// dropRequest makes decodeUnary fail from now on.
func (c *serverCall) dropRequest() {
	c.mu.Lock()
	if first := c.first; first != nil {
		first.msg.Free()
		*first, c.first = received{}, nil
	}
	c.mu.Unlock()
}

// decode fills v from r and frees r's message.
func (c *serverCall) decode(r *received, v any) error {
	if r.err != nil {
		return r.status(c.limit, requestCount)
	}
	o := &c.conn.srv.opts
	size, err := decodeMessage(o.pool, c.shape.codec, c.shape.compressor, c.limit, r, c.lease, v)
	if err != nil {
		return err
	}
	c.requests().From(v)
	c.conn.entity.MessageReceived()
	if len(o.stats) > 0 {
		c.statsInPayload(v, size, r)
	}
	return nil
}
