package message

import (
	"fmt"
	"reflect"

	"github.com/tarn-go/tarn"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// Codec encodes and decodes values. Implementations are safe for concurrent use.
type Codec interface {
	// Marshal returns the bytes of v, to be freed by the caller, with Headroom in front where that costs
	// nothing.
	Marshal(a *tarn.Pool, v any) (Message, error)
	// Unmarshal borrows m for the call. The pool is for memory that is needed meanwhile.
	Unmarshal(a *tarn.Pool, m *Message, v any) error
	// Name is the content subtype.
	Name() string
}

// grpcProtoPackage is the package of grpc-go's own protobuf codec; only that one is replaced by Proto, a
// user's own registration under "proto" is respected.
const grpcProtoPackage = "google.golang.org/grpc/encoding/proto"

// ForSubtype finds the codec registered for a content subtype (lower case;
// empty means "proto"). ok is false when there is none.
func ForSubtype(subtype string) (c Codec, ok bool) {
	if subtype == "" {
		subtype = Proto{}.Name()
	}
	if c2 := encoding.GetCodecV2(subtype); c2 != nil {
		t := reflect.TypeOf(c2)
		if t.Kind() == reflect.Pointer && t.Elem().PkgPath() == grpcProtoPackage {
			return Proto{}, true
		}
		return V2{c2}, true
	}
	if c1 := encoding.GetCodec(subtype); c1 != nil {
		return V1{c1, subtype}, true
	}
	if subtype == (Proto{}).Name() {
		return Proto{}, true
	}
	return nil, false
}

// OrJSON is ForSubtype where "json" means JSON unless a codec of that name is registered.
func OrJSON(subtype string) (c Codec, ok bool) {
	if c, ok = ForSubtype(subtype); !ok && subtype == (JSON{}).Name() {
		return JSON{}, true
	}
	return c, ok
}

// Default is the codec of messages whose content subtype is not stated: the one registered for "proto".
func Default() Codec {
	c, ok := ForSubtype("")
	if !ok {
		return Proto{}
	}
	return c
}

// Proto marshals protobuf messages directly into pooled memory.
type Proto struct{}

// Name is "proto".
func (Proto) Name() string { return "proto" }

// Marshal computes the size of v, takes memory for it and both headers, and marshals once. The caller frees
// the message.
func (Proto) Marshal(a *tarn.Pool, v any) (Message, error) {
	if m, ok, err := marshalGenerated(a, v); ok {
		return m, err
	}
	m := protoMessage(v)
	if m == nil {
		return Message{}, fmt.Errorf("rpc: caller's message is %T, which is not a proto.Message", v)
	}
	return marshal(a, m, proto.Size(m))
}

// marshal marshals m, whose size n has just been computed.
func marshal(a *tarn.Pool, m proto.Message, n int) (Message, error) {
	b, complete := a.Get(Headroom+n).Narrow(Headroom, Headroom+n), false
	defer func() { // also if protobuf panics, as when m is changed meanwhile
		if !complete {
			b.Free()
		}
	}()
	dst := b.Bytes()
	out, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst[:0], m)
	if err == nil && (len(out) != n || n > 0 && &out[0] != &dst[0]) {
		err = fmt.Errorf("rpc: caller changed %T while it was marshalled", m)
	}
	if err != nil {
		return Message{}, err
	}
	complete = true
	return Message{Buf: b}, nil
}

// Unmarshal reads directly from the receive buffer when it is contiguous, and a copy of it for a message that may keep views.
func (Proto) Unmarshal(_ *tarn.Pool, m *Message, v any) error {
	if m.parts != nil {
		if pm, ok := v.(proto.Message); ok {
			if ok, err := m.parts.unmarshal(m, pm); ok {
				return err
			}
		}
	}
	if ok, err := unmarshalGenerated(m, v); ok {
		return err
	}
	pm := protoMessage(v)
	if pm == nil {
		return fmt.Errorf("rpc: caller's message is %T, which is not a proto.Message", v)
	}
	if lent, ok := v.(Lent); ok {
		return lent.UnmarshalLent(own(m))
	}
	if !copies(pm) {
		return proto.Unmarshal(own(m), pm)
	}
	return proto.Unmarshal(m.Flatten(), pm)
}

func protoMessage(v any) proto.Message {
	switch m := v.(type) {
	case proto.Message:
		return m
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m)
	}
	return nil
}
