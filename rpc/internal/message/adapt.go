package message

import (
	"strings"

	"github.com/tarn-go/tarn"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// copyBelow is the length in bytes under which a foreign codec's output is
// copied behind a headroom rather than carried by reference: wrapping costs a
// closure and a separate piece of the write vector.
const copyBelow = 4096

// V1 adapts the older codecs, which give and take plain slices.
type V1 struct {
	C       encoding.Codec
	Subtype string
}

// Name is the content subtype.
func (c V1) Name() string { return c.Subtype }

// Marshal wraps or copies what the codec made.
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

// Unmarshal hands the codec a copy of its own: codecs of this kind were always
// allowed to keep what they are given.
func (c V1) Unmarshal(m *Message, v any) error {
	return c.C.Unmarshal(append([]byte(nil), m.Flatten()...), v)
}

// V2 adapts codecs of grpc-go's mem buffers.
type V2 struct{ C encoding.CodecV2 }

// Name is the content subtype.
func (c V2) Name() string { return strings.ToLower(c.C.Name()) }

// Marshal carries large buffers by reference and gives them back to the codec
// when they have been written.
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

// Unmarshal lends the codec the receive buffer. A codec that takes references
// of its own keeps it alive past the call.
func (c V2) Unmarshal(m *Message, v any) error {
	data := m.Flatten()
	var parts mem.BufferSlice
	switch {
	case len(data) == 0:
	case mem.IsBelowBufferPoolingThreshold(len(data)):
		// mem does not count references to so small a buffer.
		parts = mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), data...))}
	default:
		parts = mem.BufferSlice{mem.NewBuffer(&data, lease{m.Buf.Ref()})}
	}
	defer parts.Free()
	return c.C.Unmarshal(parts, v)
}

// lease is a mem.BufferPool of one buffer: what mem puts into it is freed.
type lease struct{ b tarn.Buffer }

// Get is never used by mem for a buffer made elsewhere.
func (lease) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put frees the reference behind the one buffer.
func (l lease) Put(*[]byte) { l.b.Free() }

// copied gets n bytes behind a headroom and lets fill write them.
func copied(a *tarn.Pool, n int, fill func([]byte)) Message {
	b := a.Get(Headroom+n).Narrow(Headroom, Headroom+n)
	fill(b.Bytes())
	return Message{Buf: b}
}

// Told is a codec that copies what it marshals, and says so.
type Told struct {
	Codec
	Done func()
}

// Marshal is the codec's; Done is called before it returns.
func (t Told) Marshal(a *tarn.Pool, v any) (Message, error) {
	defer t.Done()
	return t.Codec.Marshal(a, v)
}
