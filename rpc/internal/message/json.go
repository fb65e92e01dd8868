package message

import (
	"fmt"

	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/encoding/protojson"
)

// JSON marshals protobuf messages as ProtoJSON. Unknown fields of a peer are passed over, so that an
// older server understands a newer client.
type JSON struct{}

// Name is "json".
func (JSON) Name() string { return "json" }

// Marshal returns the JSON form of v in pooled memory.
func (JSON) Marshal(a *tarn.Pool, v any) (Message, error) {
	m := protoMessage(v)
	if m == nil {
		return Message{}, fmt.Errorf("rpc: caller's message is %T, which is not a proto.Message", v)
	}
	text, err := protojson.MarshalOptions{}.Marshal(m)
	if err != nil {
		return Message{}, err
	}
	b := a.Get(Headroom+len(text)).Narrow(Headroom, Headroom+len(text))
	copy(b.Bytes(), text)
	return Message{Buf: b}, nil
}

// Unmarshal fills v from JSON. An empty message is that of an empty body.
func (JSON) Unmarshal(m *Message, v any) error {
	pm := protoMessage(v)
	if pm == nil {
		return fmt.Errorf("rpc: caller's message is %T, which is not a proto.Message", v)
	}
	text := m.Flatten()
	if len(text) == 0 {
		return nil
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, pm)
}
