package rpc

import (
	"context"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendInPlace sends the messages of one call without copying their bytes fields of 128 KiB or more, nested
// and repeated ones included: the connection writes them from the caller's memory. The caller must not change
// a message, nor the memory of its fields, from SendMsg or Invoke on until done has been called with it. done
// is called exactly once for each message given to SendMsg or Invoke, whether it was sent, failed, cancelled
// or tried again. The call of done may come after these have returned, since queued data stays queued when a
// call is cancelled: at the latest when the connection has closed. done is called on its own goroutine, or,
// when nothing is sent in place, within SendMsg or Invoke. An interceptor that does not pass a message on
// must call done for it.
//
// Messages of codecs other than protobuf, compressed ones, and fields of maps and extensions are copied as
// without the option. On a connection with TLS the fields are encrypted from the caller's memory, in records
// of 16 KiB. Clients of another protocol than gRPC (see [WithProtocol]) fail the call with UNIMPLEMENTED.
func SendInPlace(done func(m any)) grpc.CallOption { return sendInPlace{done: done} }

type sendInPlace struct {
	grpc.EmptyCallOption
	done func(any)
}

// SendMsgInPlace is SendMsg of the server's stream whose context ctx is, without copying bytes fields of 128
// KiB or more. The caller must not change m, nor the memory of its fields, until done has been called:
// exactly once, as for [SendInPlace], possibly after the handler has returned. Interceptors' SendMsg does not
// get the message. In methods with lent requests ([LendRequests]) m may contain memory of a request, and is
// therefore copied; over HTTP/1.1, and through [Server.ServeHTTP] of another server than h2http's, the fields are copied when they
// are written. The error is SendMsg's, or INTERNAL if ctx is not of a call of a [Server].
func SendMsgInPlace(ctx context.Context, m any, done func()) error {
	if c := callOf(ctx); c != nil {
		r := c.run()
		codec, end := inPlace(c.asked().codec, r.lease, m, done)
		defer end()
		return r.send(c, codec, m)
	}
	done()
	return status.Error(codes.Internal, "rpc: caller's context is not that of a call of a Server of package rpc")
}

// inPlace is the codec that sends v without copying its long fields, if codec's messages may be sent so. end is
// called when v has been encoded.
func inPlace(codec message.Codec, lease *message.Lease, v any, done func()) (_ message.Codec, end func()) {
	if _, ok := codec.(message.Proto); ok && lease == nil && encodes(v) {
		return message.Spliced{Released: done}, func() {}
	}
	return codec, done
}

// encodes reports whether a codec encodes v. The memory of messages for which none is used is not the caller's any more.
func encodes(v any) bool {
	switch v.(type) {
	case nil, *tarn.Chain, *tarn.Buffer:
		return false
	}
	return true
}

// sender is the codec for sending v.
func (ci *callInfo) sender(v any) message.Codec {
	if ci.inPlace == nil {
		return ci.codec
	}
	inPlace := ci.inPlace // keeps ci off the heap
	done := func() { inPlace(v) }
	if !encodes(v) {
		done()
		return ci.codec
	}
	if _, ok := ci.codec.(message.Proto); ok {
		return message.Spliced{Released: done}
	}
	return message.DoneCodec{Codec: ci.codec, Done: done}
}

// encodeOnce is encodeMessage for the first attempt of a unary call that sends in place, and a further
// reference to the message for later ones, since done must be called once.
func (c *call) encodeOnce(req any) (message.Message, payloadInfo, error) {
	if c.encoded == nil {
		c.tried = true
		m, info, err := encodeMessage(c.cc.opts.pool, c.info.sender(req), c.info.compressor, c.info.maxSend, req)
		if err != nil {
			return m, info, err
		}
		c.encoded = &encoded{m, info}
	}
	return c.encoded.m.Ref(), c.encoded.info, nil
}

// encoded is the request of a unary call that sends in place.
type encoded struct {
	m    message.Message
	info payloadInfo
}

// dropEncoded frees the call's reference to it, after the last attempt.
func (c *call) dropEncoded(req any) {
	switch {
	case c.encoded != nil:
		c.encoded.m.Free()
		c.encoded = nil
	case !c.tried:
		c.notSent(req)
	}
}

// notSent is for a unary call that has failed before it was encoded.
func (q *request) notSent(req any) {
	if q.info.inPlace != nil {
		q.info.inPlace(req)
	}
}
