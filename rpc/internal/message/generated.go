package message

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/tarn-go/tarn"
)

// Some generators make methods that marshal a message without reflection. They are used for messages that
// have them, as the program's own protobuf package or the generator's user wants. Checks that they omit
// (vtprotobuf's do not check that strings are UTF-8) are omitted.
type (
	// vtMarshaler has the methods of github.com/planetscale/vtprotobuf.
	vtMarshaler interface {
		SizeVT() int
		MarshalToSizedBufferVT(dst []byte) (int, error)
	}
	vtUnmarshaler interface {
		proto.Message
		UnmarshalVT(src []byte) error
	}
	// vtUnsafe makes strings and bytes fields views of src.
	vtUnsafe interface {
		UnmarshalVTUnsafe(src []byte) error
	}
	// gogoMarshaler has the methods of github.com/gogo/protobuf. Messages of
	// google.golang.org/protobuf have none of this name.
	gogoMarshaler interface {
		Reset()
		Size() int
		MarshalTo(dst []byte) (int, error)
	}
	gogoUnmarshaler interface {
		Reset()
		Unmarshal(src []byte) error
	}
)

// marshalGenerated marshals v by its generated method; ok is false if it has none.
func marshalGenerated(a *tarn.Pool, v any) (m Message, ok bool, err error) {
	var n int
	var into func(dst []byte) (int, error)
	switch v := v.(type) {
	case vtMarshaler:
		n, into = v.SizeVT(), v.MarshalToSizedBufferVT
	case proto.Message:
		return Message{}, false, nil
	case gogoMarshaler:
		n, into = v.Size(), v.MarshalTo
	default:
		return Message{}, false, nil
	}
	b, complete := a.Get(Headroom+n).Narrow(Headroom, Headroom+n), false
	defer func() { // also if the method panics
		if !complete {
			b.Free()
		}
	}()
	wrote, err := into(b.Bytes())
	if err == nil && wrote != n {
		err = fmt.Errorf("rpc: caller changed %T while it was marshalled", v)
	}
	if err != nil {
		return Message{}, true, err
	}
	complete = true
	return Message{Buf: b}, true, nil
}

// unmarshalGenerated fills v from m by its generated method; ok is false if it has none.
func unmarshalGenerated(m *Message, v any) (ok bool, err error) {
	switch v := v.(type) {
	case vtUnmarshaler:
		proto.Reset(v)
		return true, v.UnmarshalVT(m.Flatten()) // which copies what it keeps, unlike UnmarshalVTUnsafe
	case proto.Message:
		return false, nil
	case gogoUnmarshaler:
		v.Reset()
		return true, v.Unmarshal(own(m))
	}
	return false, nil
}
