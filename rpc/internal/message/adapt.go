package message

import (
	"strings"

	"github.com/tarn-go/tarn"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// copyBelow is the length in bytes under which the output of an adapted codec is copied behind a headroom
// instead of being passed by reference: wrapping costs a closure and a separate element of the vectored
// write.
const copyBelow = 4096

// V1 adapts codecs of the older interface, which use plain slices.
type V1 struct {
	C       encoding.Codec
	Subtype string
}

// Name is the content subtype.
func (c V1) Name() string { return c.Subtype }

// Marshal wraps or copies the codec's output.
func (c V1) Marshal(a *tarn.Pool, v any) (Message, error) {
	b, err := c.C.Marshal(v)
	if err != nil {
		return Message{}, err
	}
	if len(b) < copyBelow {
		return copied(a, len(b), func(dst []byte) { copy(dst, b) }), nil
	}
	return Message{Buf: a.Wrap(b, nil)}, nil
}

// Unmarshal gives the codec a separate copy: codecs of this kind may keep their argument.
func (c V1) Unmarshal(_ *tarn.Pool, m *Message, v any) error {
	return c.C.Unmarshal(append([]byte(nil), m.Flatten()...), v)
}

// V2 adapts codecs that use grpc-go's mem buffers.
type V2 struct{ C encoding.CodecV2 }

// Name is the content subtype.
func (c V2) Name() string { return strings.ToLower(c.C.Name()) }

// Marshal passes large buffers by reference and frees them for the codec when they have been written.
func (c V2) Marshal(a *tarn.Pool, v any) (Message, error) {
	parts, err := c.C.Marshal(v)
	if err != nil {
		return Message{}, err
	}
	if n := parts.Len(); n < copyBelow {
		m := copied(a, n, func(dst []byte) { parts.CopyTo(dst) })
		parts.Free()
		return m, nil
	}
	chain := new(tarn.Chain)
	for _, p := range parts {
		if p.Len() == 0 {
			p.Free()
			continue
		}
		chain.Append(a.Wrap(p.ReadOnlyData(), func([]byte) { p.Free() }))
	}
	return Message{Chain: chain}, nil
}

// Unmarshal lends the codec the receive buffer. A codec that takes its own reference keeps it alive after the
// call.
func (c V2) Unmarshal(_ *tarn.Pool, m *Message, v any) error {
	data := m.Flatten()
	var parts mem.BufferSlice
	switch {
	case len(data) == 0:
	case mem.IsBelowBufferPoolingThreshold(len(data)):
		// mem does not count references to such a small buffer.
		parts = mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), data...))}
	default:
		parts = mem.BufferSlice{mem.NewBuffer(&data, lease{m.Buf.Ref()})}
	}
	defer parts.Free()
	return c.C.Unmarshal(parts, v)
}

// lease is a mem.BufferPool for one buffer, which Put frees.
type lease struct{ b tarn.Buffer }

// Get is not called by mem for a buffer that it did not get from the pool.
func (lease) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put frees the reference to the buffer.
func (l lease) Put(*[]byte) { l.b.Free() }

// copied gets n bytes behind a headroom and lets fill write them.
func copied(a *tarn.Pool, n int, fill func([]byte)) Message {
	b := a.Get(Headroom+n).Narrow(Headroom, Headroom+n)
	fill(b.Bytes())
	return Message{Buf: b}
}

// DoneCodec is a codec that copies what it marshals, and calls Done.
type DoneCodec struct {
	Codec
	Done func()
}

// Marshal is the codec's; it calls Done before it returns.
func (t DoneCodec) Marshal(a *tarn.Pool, v any) (Message, error) {
	defer t.Done()
	return t.Codec.Marshal(a, v)
}
