package message

import (
	"encoding/binary"
	"slices"
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
	r := m.ProtoReflect()
	var w splice
	w.own, w.pieces = w.own0[:0], w.pieces0[:0]
	if !w.message(r, planOf(r.Descriptor()), 0) || len(w.pieces) == 0 {
		m, err := s.Proto.Marshal(a, v)
		return m, nil, err
	}
	if err := proto.CheckInitialized(m); err != nil {
		return Message{}, nil, err
	}
	var release func([]byte)
	if s.Released != nil {
		h := &holds{done: s.Released}
		h.n.Store(int32(len(w.pieces)))
		release = h.release
	}
	return w.assemble(a, release), w.pieces, nil
}

// splice collects the encoding of a message: bytes of its own, and long fields between them.
type splice struct {
	own    []byte
	pieces []piece

	// Where these lists begin, so that most messages need no other memory for them.
	own0    [128]byte
	pieces0 [2]piece
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

// long reports whether a planned field contains a bytes field that is to be spliced.
func (f *planned) long(r protoreflect.Message, depth int) bool {
	if depth > maxDepth || !r.Has(f.fd) {
		return false
	}
	v := r.Get(f.fd)
	if !f.list {
		return f.longValue(v, depth)
	}
	list := v.List()
	for i := range list.Len() {
		if f.longValue(list.Get(i), depth) {
			return true
		}
	}
	return false
}

func (f *planned) longValue(v protoreflect.Value, depth int) bool {
	if f.inner == nil {
		return len(v.Bytes()) >= SpliceFrom
	}
	r := v.Message()
	for i := range f.inner.fields {
		if f.inner.fields[i].long(r, depth+1) {
			return true
		}
	}
	return false
}

// message appends the fields of r, for whose type p is the plan: first those without long content,
// marshalled together, then the others one by one. False: it cannot be marshalled.
func (w *splice) message(r protoreflect.Message, p *Plan, depth int) bool {
	if !w.rest(r, p, depth) {
		return false
	}
	if p == nil {
		return true
	}
	for i := range p.fields {
		f := &p.fields[i]
		if !f.long(r, depth) {
			continue
		}
		v := r.Get(f.fd)
		if !f.list {
			if !w.value(f, v, depth) {
				return false
			}
			continue
		}
		list := v.List()
		for i := range list.Len() {
			if !w.value(f, list.Get(i), depth) {
				return false
			}
		}
	}
	return true
}

// rest appends the fields of r without long content. Range would do what the loop over
// all fields does, but allocates.
func (w *splice) rest(r protoreflect.Message, p *Plan, depth int) bool {
	var rest short
	md := r.Descriptor()
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !r.Has(fd) {
			continue
		}
		if p != nil {
			if f := p.field(fd.Number()); f != nil && f.long(r, depth) {
				continue
			}
		}
		rest.set(r, fd, r.Get(fd))
	}
	if md.ExtensionRanges().Len() > 0 {
		rest.extensions(r)
	}
	if unknown := r.GetUnknown(); len(unknown) > 0 {
		rest.like(r).SetUnknown(unknown)
	}
	if rest.m == nil {
		return true
	}
	var err error
	w.own, err = proto.MarshalOptions{AllowPartial: true}.MarshalAppend(w.own, rest.m.Interface())
	return err == nil
}

// short is a message with some of another's fields. It shares what these refer to, and is
// only read.
type short struct{ m protoreflect.Message } // nil: it has no fields

// like returns the message, which is of r's type.
func (s *short) like(r protoreflect.Message) protoreflect.Message {
	if s.m == nil {
		s.m = r.New()
	}
	return s.m
}

func (s *short) set(r protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	s.like(r).Set(fd, v)
}

// extensions takes over the extension fields of r.
func (s *short) extensions(r protoreflect.Message) {
	all := *s // s stays off the heap
	r.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.IsExtension() {
			all.set(r, fd, v)
		}
		return true
	})
	*s = all
}

// value appends one field with its tag.
func (w *splice) value(f *planned, v protoreflect.Value, depth int) bool {
	w.own = protowire.AppendTag(w.own, f.number, protowire.BytesType)
	if f.inner == nil {
		data := v.Bytes()
		w.own = protowire.AppendVarint(w.own, uint64(len(data)))
		if len(data) < SpliceFrom {
			w.own = append(w.own, data...)
		} else {
			w.pieces = append(w.pieces, piece{len(w.own), data})
		}
		return true
	}
	own, pieces := len(w.own), len(w.pieces)
	if !w.message(v.Message(), f.inner, depth+1) {
		return false
	}
	// The length stands before what it counts, which is moved behind it.
	n := len(w.own) - own
	for _, p := range w.pieces[pieces:] {
		n += len(p.data)
	}
	prefix := protowire.SizeVarint(uint64(n))
	end := len(w.own)
	w.own = slices.Grow(w.own, prefix)[:end+prefix]
	copy(w.own[own+prefix:], w.own[own:end])
	binary.PutUvarint(w.own[own:], uint64(n))
	for i := range w.pieces[pieces:] {
		w.pieces[pieces+i].at += prefix
	}
	return true
}

// assemble makes the Message: its own bytes in pooled memory, cut where the long fields come, whose
// memory release is called for when nothing refers to it any more (nil: nobody asks).
func (w *splice) assemble(pool *tarn.Pool, release func([]byte)) Message {
	c := new(tarn.Chain)
	own := pool.Get(Headroom+len(w.own)).Narrow(Headroom, Headroom+len(w.own))
	copy(own.Bytes(), w.own)
	at := 0
	for _, p := range w.pieces {
		switch n := p.at - at; n {
		case 0:
		case own.Len(): // its slab has no other reference: the prefix finds room in it
			c.Append(own)
			own = tarn.Buffer{}
		default:
			var head tarn.Buffer
			head, own = own.Split(n)
			c.Append(head)
		}
		c.Append(pool.Wrap(p.data, release))
		at = p.at
	}
	c.Append(own)
	return Message{Chain: c}
}
