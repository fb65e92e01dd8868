package rpc

import (
	"fmt"
	"strings"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/mem"
)

// RawCodec passes messages as bytes: *tarn.Chain or *tarn.Buffer values, of which SendMsg takes ownership and
// which it empties, on errors too, and which RecvMsg fills to be freed by the caller. Streams of this package accept such
// values with any codec; RawCodec, given to grpc.ForceCodecV2, also sets the content subtype, so that a proxy
// forwards what it received.
type RawCodec struct {
	// Subtype is the content subtype to name; empty for plain
	// "application/grpc".
	Subtype string
}

// Name is the content subtype.
func (c RawCodec) Name() string { return c.Subtype }

// Marshal returns an error: raw messages bypass codecs, and no other value is raw.
func (c RawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return nil, fmt.Errorf("rpc: caller sent %T on a raw stream; it takes *tarn.Chain or *tarn.Buffer", v)
}

// Unmarshal returns an error, as Marshal does.
func (c RawCodec) Unmarshal(_ mem.BufferSlice, v any) error {
	return fmt.Errorf("rpc: caller receives into %T on a raw stream; it takes *tarn.Chain or *tarn.Buffer", v)
}

func (c RawCodec) codec() message.Codec { return rawCodec{c} }

// rawCodec is RawCodec in the form of this package's codecs.
type rawCodec struct{ c RawCodec }

func (r rawCodec) Name() string { return strings.ToLower(r.c.Subtype) }

func (r rawCodec) Marshal(_ *tarn.Pool, v any) (message.Message, error) {
	_, err := r.c.Marshal(v)
	return message.Message{}, err
}

func (r rawCodec) Unmarshal(_ *tarn.Pool, _ *message.Message, v any) error {
	return r.c.Unmarshal(nil, v)
}
