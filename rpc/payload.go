package rpc

import (
	"context"
	"errors"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// payloadInfo holds a message's lengths for statistics.
type payloadInfo struct{ plain, packed, wire int }

// encodeMessage returns the framed and, if comp is not nil, compressed message of v, to be freed by the caller.
// Raw messages (*tarn.Chain, *tarn.Buffer) bypass the codec; it takes ownership of their memory on every
// path.
func encodeMessage(pool *tarn.Pool, codec message.Codec, comp encoding.Compressor, limit int, v any) (message.Message, payloadInfo, error) {
	m, raw := takeRaw(v)
	if !raw && v != nil { // an untyped nil is an empty message, as in grpc-go
		var err error
		if m, err = codec.Marshal(pool, v); err != nil {
			return message.Message{}, payloadInfo{}, status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
		}
	}
	info := payloadInfo{plain: m.Len()}
	kind := message.Plain
	if comp != nil && m.Len() > 0 {
		var err error
		if m, err = message.Compress(pool, comp, m); err != nil {
			return message.Message{}, info, status.Errorf(codes.Internal, "grpc: error while compressing: %v", err)
		}
		kind = message.Compressed
	}
	if m.Len() > limit {
		n := m.Len()
		m.Free()
		return message.Message{}, info, status.Errorf(codes.ResourceExhausted, "grpc: trying to send message larger than max (%d vs. %d)", n, limit)
	}
	info.packed = m.Len()
	m.Frame(pool, kind)
	info.wire = m.Len()
	return m, info, nil
}

// takeRaw moves the bytes out of a raw message.
func takeRaw(v any) (m message.Message, ok bool) {
	switch v := v.(type) {
	case *tarn.Chain:
		c := new(tarn.Chain)
		c.AppendChain(v)
		return message.Message{Chain: c}, true
	case *tarn.Buffer:
		m.Buf, *v = *v, tarn.Buffer{}
		return m, true
	}
	return m, false
}

// decodeMessage decompresses r's message if needed, fills v, and frees the message or, if lease is not nil,
// leaves it to lease. It returns the length of the uncompressed message.
func decodeMessage(pool *tarn.Pool, codec message.Codec, comp encoding.Compressor, limit int, r *received, lease *message.Lease, v any) (int, error) {
	if err := r.decompress(pool, comp, limit); err != nil {
		return 0, err
	}
	m := r.msg
	r.msg = message.Message{}
	size := m.Len()
	switch v := v.(type) {
	case *tarn.Chain:
		m.IntoChain(v)
		return size, nil
	case *tarn.Buffer:
		m.Flatten()
		*v = m.Buf
		return size, nil
	}
	var err error
	if lease != nil {
		err = lease.Decode(pool, codec, m, v)
	} else {
		err = unmarshal(pool, codec, m, v)
	}
	if err != nil {
		return size, status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	return size, nil
}

// decompress makes r's message plain. After an error it has been freed.
func (r *received) decompress(pool *tarn.Pool, comp encoding.Compressor, limit int) error {
	if r.kind != message.Compressed {
		return nil
	}
	m := r.msg
	r.msg = message.Message{}
	if comp == nil {
		m.Free()
		return status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	}
	if m.Len() > 0 { // an empty message is not decompressed, as in gRPC C++ and connect-go
		var err error
		if m, err = message.Decompress(pool, comp, m, limit); err != nil {
			if errors.Is(err, message.ErrTooLarge) {
				return status.Errorf(codes.ResourceExhausted, "grpc: message after decompression larger than max %d", limit)
			}
			return status.Errorf(codes.Internal, "grpc: failed to decompress the received message: %v", err)
		}
	}
	r.msg, r.kind = m, message.Plain
	return nil
}

// unmarshal takes ownership of m. A protobuf message does not escape to the heap, as it is not passed through
// the interface.
func unmarshal(pool *tarn.Pool, codec message.Codec, m message.Message, v any) error {
	if p, ok := codec.(message.Proto); ok {
		err := p.Unmarshal(pool, &m, v)
		m.Free()
		return err
	}
	other := m
	defer other.Free() // the codec may panic
	return codec.Unmarshal(pool, &other, v)
}

// count holds the codes of the errors for a wrong number of messages and for malformed ones, and texts in grpc-go's words.
type count struct {
	code       codes.Code
	malformed  codes.Code
	none, many string
}

// in returns n with another code.
func (n count) in(code codes.Code) count {
	n.code = code
	return n
}

var (
	requestCount = count{
		code: codes.Internal, malformed: codes.Internal,
		none: "cardinality violation: received no request message from non-client-streaming RPC",
		many: "cardinality violation: received multiple request messages for non-client-streaming RPC"}
	responseCount = count{
		code: codes.Internal, malformed: codes.Internal,
		none: "cardinality violation: received no response message from non-server-streaming RPC",
		many: "cardinality violation: expected <EOF> for non server-streaming RPCs, but received another message"}
)

// status is the status error for the reason why no message was received.
func (r *received) status(limit int, n count) error {
	switch {
	case errors.Is(r.err, message.ErrTooLarge):
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", r.size, limit)
	case errors.Is(r.err, context.Canceled), errors.Is(r.err, context.DeadlineExceeded):
		return status.FromContextError(r.err).Err()
	case errors.Is(r.err, message.ErrTruncated):
		return status.Error(n.malformed, "unexpected EOF: "+r.err.Error())
	case errors.Is(r.err, errNoMessage):
		return status.Error(n.code, n.none)
	case errors.Is(r.err, errTwoMessages):
		return status.Error(n.code, n.many)
	}
	if _, ok := status.FromError(r.err); ok {
		return r.err
	}
	return status.Error(codes.Internal, r.err.Error())
}
