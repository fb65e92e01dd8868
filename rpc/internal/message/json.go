package message

import (
	"fmt"

	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/encoding/protojson"
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
	b := a.Get(Headroom + smallJSON)
	text, err := protojson.MarshalOptions{}.MarshalAppend(b.Bytes()[:Headroom], m)
	if err != nil {
		b.Free()
		return Message{}, err
	}
	if &text[0] != &b.Bytes()[0] { // the capacity was exceeded
		b.Free()
		b = a.Get(len(text))
		copy(b.Bytes(), text)
	}
	return Message{Buf: b.Narrow(Headroom, len(text))}, nil
}

// smallJSON is the length in bytes up to which a message is written into pooled memory without a copy.
const smallJSON = 1 << 10

// Unmarshal fills v from JSON. An empty body is an empty message.
func (JSON) Unmarshal(_ *tarn.Pool, m *Message, v any) error {
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
