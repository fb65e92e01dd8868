// Package jsonpb converts protobuf messages to JSON and back, with protojson's results.
//
// It converts between JSON and the wire format, by a plan that is made once for each message type; proto.Marshal and
// proto.Unmarshal do the rest. It has no errors of its own: a message or text that is unusual or wrong is given to
// protojson, from its beginning.
package jsonpb

import (
	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Marshal returns the JSON of m, behind headroom bytes that are not used, in memory to be freed.
func Marshal(pool *tarn.Pool, headroom int, m proto.Message) (tarn.Buffer, error) {
	var w writer
	if w.marshal(pool, headroom, m) {
		return w.take(), nil
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return tarn.Buffer{}, err
	}
	b := pool.Get(headroom + len(text))
	copy(b.Bytes()[headroom:], text)
	return b, nil
}

// smallLen is the memory in bytes that a message may take in addition to one and a half times its wire format, without
// being copied.
const smallLen = 1 << 10

func (w *writer) marshal(pool *tarn.Pool, headroom int, m proto.Message) bool {
	p := planOf(m.ProtoReflect().Descriptor())
	if p.form == foreign {
		return false
	}
	options := proto.MarshalOptions{Deterministic: true}
	size := options.Size(m) // by the same options: a field that is decoded lazily may have been received in another form
	wire := pool.Get(size)
	defer wire.Free()
	options.UseCachedSize = true
	b, err := options.MarshalAppend(wire.Bytes()[:0], m)
	if err != nil {
		return false
	}
	w.begin(pool, headroom+size+size/2+smallLen)
	w.b = w.b[:headroom]
	if !w.message(p, b) {
		w.free()
		return false
	}
	return true
}

// Unmarshal sets m to what text says. Unknown fields are ignored. pool is for memory that is needed meanwhile.
func Unmarshal(pool *tarn.Pool, text []byte, m proto.Message) error {
	if transcode(pool, text, m) {
		return nil
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m)
}

// transcode sets m to what text says. It reports false where protojson must.
func transcode(pool *tarn.Pool, text []byte, m proto.Message) bool {
	r := readers.Get().(*reader)
	defer r.recycle()
	r.begin(pool, len(text)+fixedLen)
	r.text = text
	// A value takes at most 16 times as many bytes in wire format, tag and length included, as in JSON.
	r.lenSize = protowire.SizeVarint(16 * uint64(len(text)))
	if !r.message(planOf(m.ProtoReflect().Descriptor())) {
		return false
	}
	r.space()
	return r.at == len(text) && proto.Unmarshal(r.b, m) == nil
}

// recycle frees the memory and makes r available for reuse.
func (r *reader) recycle() {
	r.free()
	*r = reader{seen: r.seen[:0], keys: r.keys[:0]}
	if cap(r.seen) > maxKept || cap(r.keys) > maxKept {
		*r = reader{}
	}
	readers.Put(r)
}
