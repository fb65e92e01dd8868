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

// SpliceFrom is the length in bytes from which a bytes field is sent from its own memory. Below it, a copy
// costs less than a separate element of the vectored write.
const SpliceFrom = 128 << 10

// Spliced is [Proto] for messages that do not change until they have been sent: bytes fields of at least
// SpliceFrom bytes become pieces of the Message without being copied, and the other fields are marshalled
// around them. The order of fields differs from Proto's; protobuf does not define it.
type Spliced struct {
	Proto
	// Released is called once when the last reference to the message's memory is gone: on its own goroutine
	// if there is one when Marshal returns. It may be nil.
	Released func()
	// Lent is the lease of the memory of which long fields may be views; nil: they are not. The Message refers to that memory, too, until it
	// is freed. Fields that are less than half of it are copied, so that a peer that does not read its messages
	// makes this side keep no more than twice as much.
	Lent *Lease
}

// Marshal returns the bytes of v, to be freed by the caller; the long fields are v's own memory.
func (s Spliced) Marshal(a *tarn.Pool, v any) (Message, error) {
	m, pieces, err := s.splice(a, v)
	if s.Released != nil && len(pieces) == 0 {
		s.Released()
	}
	return m, err
}

// splice is Marshal; pieces are the parts of v's memory to which the Message refers.
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
	w.skeleton, w.pieces = w.skeleton0[:0], w.pieces0[:0]
	if !w.message(r, planOf(r.Descriptor()), 0) || len(w.pieces) == 0 {
		m, err := s.Proto.Marshal(a, v)
		return m, nil, err
	}
	if s.Lent != nil && w.long() < s.Lent.Size()/2 {
		m, err := s.Proto.Marshal(a, v)
		return m, nil, err
	}
	if err := proto.CheckInitialized(m); err != nil {
		return Message{}, nil, err
	}
	var release func([]byte)
	if s.Released != nil || s.Lent != nil {
		h := &holds{done: s.Released}
		if s.Lent != nil {
			h.lent = s.Lent.ref()
		}
		h.n.Store(int32(len(w.pieces)))
		release = h.release
	}
	return w.assemble(a, release), w.pieces, nil
}

// long is how many bytes the pieces have.
func (w *splice) long() int {
	n := 0
	for i := range w.pieces {
		n += len(w.pieces[i].data)
	}
	return n
}

// splice collects the encoding of a message: its skeleton, which is all but the content of long fields, and those fields.
type splice struct {
	skeleton []byte
	pieces   []piece

	// Initial arrays of these lists, so that most messages allocate no others.
	skeleton0 [128]byte
	pieces0   [2]piece
}

// holds counts the pieces of a message that are still referenced.
type holds struct {
	n    atomic.Int32
	done func() // may be nil
	lent Lease
}

// release may be called with locks held: done is called elsewhere.
func (h *holds) release([]byte) {
	if h.n.Add(-1) > 0 {
		return
	}
	h.lent.Release()
	if h.done != nil {
		go h.done()
	}
}

// piece is a long field at an offset of the skeleton.
type piece struct {
	at   int // in the skeleton
	data []byte
}

// long reports whether a planned field contains a bytes field to be spliced.
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

// message appends the fields of r, whose type has the plan p: first those without long content, marshalled
// together, then the others one by one. False: it cannot be marshalled.
func (w *splice) message(r protoreflect.Message, p *Plan, depth int) bool {
	if !w.shortFields(r, p, depth) {
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

// shortFields appends the fields of r without long content. Range would do what the loop over all fields does, but
// allocates.
func (w *splice) shortFields(r protoreflect.Message, p *Plan, depth int) bool {
	var s short
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
		s.set(r, fd, r.Get(fd))
	}
	if md.ExtensionRanges().Len() > 0 {
		s.extensions(r)
	}
	if unknown := r.GetUnknown(); len(unknown) > 0 {
		s.like(r).SetUnknown(unknown)
	}
	if s.m == nil {
		return true
	}
	var err error
	w.skeleton, err = proto.MarshalOptions{AllowPartial: true}.MarshalAppend(w.skeleton, s.m.Interface())
	return err == nil
}

// short is a message with some of another's fields. It shares their memory, and is only read.
type short struct{ m protoreflect.Message } // nil: it has no fields

// like returns the message, which has r's type.
func (s *short) like(r protoreflect.Message) protoreflect.Message {
	if s.m == nil {
		s.m = r.New()
	}
	return s.m
}

func (s *short) set(r protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	s.like(r).Set(fd, v)
}

// extensions copies the extension fields of r.
func (s *short) extensions(r protoreflect.Message) {
	all := *s // keeps s off the heap
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
	w.skeleton = protowire.AppendTag(w.skeleton, f.number, protowire.BytesType)
	if f.inner == nil {
		data := v.Bytes()
		w.skeleton = protowire.AppendVarint(w.skeleton, uint64(len(data)))
		if len(data) < SpliceFrom {
			w.skeleton = append(w.skeleton, data...)
		} else {
			w.pieces = append(w.pieces, piece{len(w.skeleton), data})
		}
		return true
	}
	start, pieces := len(w.skeleton), len(w.pieces)
	if !w.message(v.Message(), f.inner, depth+1) {
		return false
	}
	// The length precedes the bytes that it counts, which are moved behind it.
	n := len(w.skeleton) - start
	for _, p := range w.pieces[pieces:] {
		n += len(p.data)
	}
	prefix := protowire.SizeVarint(uint64(n))
	end := len(w.skeleton)
	w.skeleton = slices.Grow(w.skeleton, prefix)[:end+prefix]
	copy(w.skeleton[start+prefix:], w.skeleton[start:end])
	binary.PutUvarint(w.skeleton[start:], uint64(n))
	for i := range w.pieces[pieces:] {
		w.pieces[pieces+i].at += prefix
	}
	return true
}

// assemble makes the Message: its skeleton in pooled memory, divided where the long fields belong. release
// is called for their memory when the last reference is gone; it may be nil.
func (w *splice) assemble(pool *tarn.Pool, release func([]byte)) Message {
	c := new(tarn.Chain)
	skeleton := pool.Get(Headroom+len(w.skeleton)).Narrow(Headroom, Headroom+len(w.skeleton))
	copy(skeleton.Bytes(), w.skeleton)
	at := 0
	for _, p := range w.pieces {
		switch n := p.at - at; n {
		case 0:
		case skeleton.Len(): // its slab has no other reference: there is space for the prefix
			c.Append(skeleton)
			skeleton = tarn.Buffer{}
		default:
			var head tarn.Buffer
			head, skeleton = skeleton.Split(n)
			c.Append(head)
		}
		c.Append(pool.Wrap(p.data, release))
		at = p.at
	}
	c.Append(skeleton)
	return Message{Chain: c}
}
