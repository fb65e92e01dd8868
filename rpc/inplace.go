package rpc

import (
	"context"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendInPlace sends the messages of one call without copying their bytes fields of
// 128 KiB or more, nested and repeated ones included: they go to the socket from where
// they are. The caller does not change a message, nor the memory of its fields, from
// SendMsg or Invoke on until done has been called with it. That happens exactly once
// for each message that was given to SendMsg or Invoke, whatever becomes of the call
// (sent, failed, cancelled, tried again), and maybe only after these have returned,
// since what is queued stays queued when a call is cancelled: at the latest when the
// connection has closed. done is called on a goroutine of its own, or, where nothing is
// sent in place, within SendMsg or Invoke. An interceptor that does not pass a message on
// answers for it.
//
// Messages of codecs other than protobuf, compressed ones, and fields of maps and
// extensions are copied as without the option. On a connection with TLS the fields are
// read for encryption from where they are, by records of 16 KiB. Clients of another
// protocol than gRPC (see [WithProtocol]) fail the call with UNIMPLEMENTED.
func SendInPlace(done func(m any)) grpc.CallOption { return sendInPlace{done: done} }

type sendInPlace struct {
	grpc.EmptyCallOption
	done func(any)
}

// SendMsgInPlace is SendMsg of the server's stream whose context ctx is, without
// copying bytes fields of 128 KiB or more. The caller does not change m, nor the memory
// of its fields, until done has been called: exactly once, as [SendInPlace] says, maybe
// after the handler has returned. Interceptors' SendMsg does not see the message.
// Requests of methods with lent requests ([LendRequests]) may be part of m, which is
// therefore copied. The error is SendMsg's, or INTERNAL if ctx is not of a call of a
// [Server].
func SendMsgInPlace(ctx context.Context, m any, done func()) error {
	c := callOf(ctx)
	if c == nil {
		done()
		return status.Error(codes.Internal, "rpc: caller's context is not that of a call of a Server of package rpc")
	}
	codec := c.shape.codec
	if _, ok := codec.(message.Proto); ok && c.lease == nil {
		codec = message.Spliced{Released: done}
	} else {
		defer done()
	}
	return (*serverStream)(c).send(codec, m)
}

// sender is the codec for sending v.
func (ci *callInfo) sender(v any) message.Codec {
	if ci.inPlace == nil {
		return ci.codec
	}
	inPlace := ci.inPlace // ci stays off the heap
	done := func() { inPlace(v) }
	switch v.(type) {
	case nil, *tarn.Chain, *tarn.Buffer: // no codec sees it, and their memory is not the caller's any more
		done()
		return ci.codec
	}
	if _, ok := ci.codec.(message.Proto); ok {
		return message.Spliced{Released: done}
	}
	return message.Told{Codec: ci.codec, Done: done}
}

// encodeOnce is encodeMessage for the first attempt of a unary call that sends in place,
// and a further reference to its message for later ones: done is to be called once.
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

// dropEncoded gives up the call's reference to it, after the last attempt.
func (c *call) dropEncoded(req any) {
	switch {
	case c.encoded != nil:
		c.encoded.m.Free()
		c.encoded = nil
	case c.info.inPlace != nil && !c.tried:
		c.info.inPlace(req)
	}
}

// notSent is for a unary call that failed before its options were applied.
func (cc *ClientConn) notSent(opts []grpc.CallOption, req any) {
	var last *sendInPlace
	for _, list := range [...][]grpc.CallOption{cc.opts.callOptions, opts} {
		for _, o := range list {
			if o, ok := o.(sendInPlace); ok {
				last = &o
			}
		}
	}
	if last != nil {
		last.done(req)
	}
}
