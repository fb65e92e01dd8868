package message

import (
	"fmt"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/jsonpb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// JSON marshals protobuf messages as ProtoJSON. Unknown fields of a peer are ignored, so that an older server
// accepts a newer client's messages.
type JSON struct{}

// Name is "json".
func (JSON) Name() string { return "json" }

// Marshal returns the JSON form of v in pooled memory.
func (JSON) Marshal(a *tarn.Pool, v any) (Message, error) {
	m := protoMessage(v)
	if m == nil {
		return Message{}, fmt.Errorf("rpc: caller's message is %T, which is not a proto.Message", v)
	}
	b, err := jsonpb.Marshal(a, Headroom, m)
	if err != nil {
		return Message{}, err
	}
	return Message{Buf: b.Narrow(Headroom, b.Len())}, nil
}

// Unmarshal fills v from JSON. An empty body is an empty message.
func (JSON) Unmarshal(a *tarn.Pool, m *Message, v any) error {
	pm := protoMessage(v)
	if pm == nil {
		return fmt.Errorf("rpc: caller's message is %T, which is not a proto.Message", v)
	}
	text := m.Flatten()
	if len(text) == 0 {
		return nil
	}
	if lent, ok := v.(Lent); ok {
		return unmarshalLentJSON(a, text, lent)
	}
	if !copies(pm) {
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, pm)
	}
	return jsonpb.Unmarshal(a, text, pm)
}

// unmarshalLentJSON fills a message that decodes itself from memory of the garbage collector's.
func unmarshalLentJSON(a *tarn.Pool, text []byte, m Lent) error {
	d := dynamicpb.NewMessage(m.ProtoReflect().Descriptor())
	if err := jsonpb.Unmarshal(a, text, d); err != nil {
		return err
	}
	b, err := proto.Marshal(d)
	if err != nil {
		return err
	}
	return m.UnmarshalLent(b)
}
