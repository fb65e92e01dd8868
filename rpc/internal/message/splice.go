package message

import (
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// SpliceFrom is the length in bytes from which a bytes field is sent from where it lies. Below it, a copy
// costs less than a piece of its own in the write.
const SpliceFrom = 128 << 10

// Spliced is [Proto] for messages that do not change until they have been sent: bytes fields of at least
// SpliceFrom bytes become pieces of the Message without being copied, and the rest is marshalled around
// them. The order of fields is not that of Proto, which protobuf leaves open.
type Spliced struct {
	Proto
	// Released is called once when nothing refers to the message's memory any more, on
	// a goroutine of its own if something does when Marshal returns; nil: it need not be known.
	Released func()
}

// Marshal returns the bytes of v, to be freed; the long fields are v's own memory.
func (s Spliced) Marshal(a *tarn.Pool, v any) (Message, error) {
	m, pieces, err := s.splice(a, v)
	if s.Released != nil && len(pieces) == 0 {
		s.Released()
	}
	return m, err
}

// splice is Marshal; pieces are the memory of v's that the Message refers to.
func (s Spliced) splice(a *tarn.Pool, v any) (Message, []piece, error) {
	m, ok := v.(proto.Message)
	if !ok {
		m, err := s.Proto.Marshal(a, v)
		return m, nil, err
	}
	if vt, ok := v.(vtMarshaler); ok {
		if vt.SizeVT() < SpliceFrom {
			m, err := s.Proto.Marshal(a, v)
			return m, nil, err
		}
	} else if n := proto.Size(m); n < SpliceFrom {
		m, err := marshal(a, m, n)
		return m, nil, err
	}
	w := splice{pool: a}
	if !w.message(m.ProtoReflect(), 0) || len(w.pieces) == 0 {
		m, err := s.Proto.Marshal(a, v)
		return m, nil, err
	}
	if err := proto.CheckInitialized(m); err != nil {
		return Message{}, nil, err
	}
	if s.Released != nil {
		h := &holds{done: s.Released}
		h.n.Store(int32(len(w.pieces)))
		w.release = h.release
	}
	return w.assemble(), w.pieces, nil
}

// splice collects the encoding of a message: bytes of its own, and long fields between them.
type splice struct {
	pool    *tarn.Pool
	own     []byte
	pieces  []piece
	release func([]byte) // of each piece's memory; may be nil
}

// holds counts the pieces of a message that are referred to.
type holds struct {
	n    atomic.Int32
	done func()
}

// release may be called under locks of those who free: done is called elsewhere.
func (h *holds) release([]byte) {
	if h.n.Add(-1) == 0 {
		go h.done()
	}
}

// piece is a long field that comes at a place of own.
type piece struct {
	at   int // in own
	data []byte
}

// long reports whether a value contains a bytes field that is to be spliced. Maps, groups and extensions
// are not looked into.
func long(fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) bool {
	if fd.IsMap() || fd.IsExtension() || depth > maxDepth {
		return false
	}
	if fd.IsList() {
		list := v.List()
		for i := range list.Len() {
			if longValue(fd, list.Get(i), depth) {
				return true
			}
		}
		return false
	}
	return longValue(fd, v, depth)
}

func longValue(fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) bool {
	switch fd.Kind() {
	case protoreflect.BytesKind:
		return len(v.Bytes()) >= SpliceFrom
	case protoreflect.MessageKind:
		found := false
		v.Message().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			found = long(fd, v, depth+1)
			return !found
		})
		return found
	}
	return false
}

// message appends the fields of r: first those without long content, marshalled together, then the
// others one by one. False: it cannot be marshalled.
func (w *splice) message(r protoreflect.Message, depth int) bool {
	var others []protoreflect.FieldDescriptor
	rest := r.New()
	r.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if long(fd, v, depth) {
			others = append(others, fd)
		} else {
			rest.Set(fd, v) // shares what v refers to, and is only read
		}
		return true
	})
	rest.SetUnknown(r.GetUnknown())
	var err error
	if w.own, err = (proto.MarshalOptions{AllowPartial: true}).MarshalAppend(w.own, rest.Interface()); err != nil {
		return false
	}
	for _, fd := range others {
		v := r.Get(fd)
		if !fd.IsList() {
			if !w.value(fd, v, depth) {
				return false
			}
			continue
		}
		list := v.List()
		for i := range list.Len() {
			if !w.value(fd, list.Get(i), depth) {
				return false
			}
		}
	}
	return true
}

// value appends one field with its tag.
func (w *splice) value(fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) bool {
	w.own = protowire.AppendTag(w.own, fd.Number(), protowire.BytesType)
	if fd.Kind() == protoreflect.BytesKind {
		data := v.Bytes()
		w.own = protowire.AppendVarint(w.own, uint64(len(data)))
		if len(data) < SpliceFrom {
			w.own = append(w.own, data...)
		} else {
			w.pieces = append(w.pieces, piece{len(w.own), data})
		}
		return true
	}
	// The length stands before what it counts: the content is made apart and moved in.
	inner := splice{pool: w.pool}
	if !inner.message(v.Message(), depth+1) {
		return false
	}
	w.own = protowire.AppendVarint(w.own, uint64(inner.len()))
	base := len(w.own)
	w.own = append(w.own, inner.own...)
	for _, p := range inner.pieces {
		w.pieces = append(w.pieces, piece{base + p.at, p.data})
	}
	return true
}

func (w *splice) len() int {
	n := len(w.own)
	for _, p := range w.pieces {
		n += len(p.data)
	}
	return n
}

// assemble makes the Message: its own bytes in pooled memory, cut where the long fields come.
func (w *splice) assemble() Message {
	c := new(tarn.Chain)
	own := w.pool.Get(Headroom+len(w.own)).Narrow(Headroom, Headroom+len(w.own))
	copy(own.Bytes(), w.own)
	at := 0
	for _, p := range w.pieces {
		head, tail := own.Split(p.at - at)
		c.Append(head)
		c.Append(w.pool.Wrap(p.data, w.release))
		own, at = tail, p.at
	}
	if own.Len() > 0 {
		c.Append(own)
	} else {
		own.Free()
	}
	return Message{Chain: c}
}
