package message

import (
	"slices"

	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// LendFrom is the length in bytes from which a bytes field of a lent message is a view of received
// memory. Shorter ones are copied: a copy of so few bytes costs less than leaving it out.
const LendFrom = 1 << 10

// Lease holds the memory of lent messages until it is released. The zero Lease is ready. It is not safe
// for concurrent use.
type Lease struct{ held []Message }

// Release frees the memory: fields that were lent must not be used any more (rule 3).
func (l *Lease) Release() {
	for i := range l.held {
		l.held[i].Free()
	}
	clear(l.held)
	l.held = l.held[:0]
}

// Decode fills v from m by codec, and frees m: now, or with the lease where v is a protobuf message with
// long bytes fields.
func (l *Lease) Decode(pool *tarn.Pool, codec Codec, m Message, v any) error {
	if _, ok := codec.(Proto); ok {
		if pm := protoMessage(v); pm != nil {
			return l.Unmarshal(pool, m, pm)
		}
	}
	defer m.Free()
	return codec.Unmarshal(&m, v)
}

// Unmarshal fills v from m, which it takes ownership of. Bytes fields of at least LendFrom bytes, nested
// and repeated ones included, are views of m's memory, valid until Release; everything else is v's own.
// Fields of maps, groups and extensions are copied. pool is for the part of the message that is parsed.
func (l *Lease) Unmarshal(pool *tarn.Pool, m Message, v proto.Message) error {
	b := m.Flatten()
	s := splitter{data: b}
	if m.Len() < LendFrom || !s.scan(b, v.ProtoReflect().Descriptor(), 0) || len(s.views) == 0 {
		defer m.Free()
		return proto.Unmarshal(b, v)
	}
	rest := pool.Get(s.restLen())
	parsed := s.appendRest(rest.Bytes()[:0])
	err := proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(parsed, v)
	rest.Free()
	if err != nil {
		m.Free()
		return err
	}
	r := v.ProtoReflect()
	for _, view := range s.views {
		if !view.dropped {
			s.set(r, view)
		}
	}
	l.held = append(l.held, m)
	return proto.CheckInitialized(v)
}

// splitter finds the long bytes fields of an encoded message. What is parsed is the message with each of
// them empty: so presence, oneofs and the order of lists come out as the parser has them, and the
// content is set afterwards.
type splitter struct {
	data    []byte
	steps   []step // the messages that lead to views, all in one list
	views   []view
	lengths []length
	at      []step // the messages that lead to where scan is
}

// step leads from a message to one in it.
type step struct {
	fd    protoreflect.FieldDescriptor
	index int // in a list; -1: the field is singular
}

// view is one long field.
type view struct {
	step
	from, to   int // its content, in data
	first, end int // of steps
	level      int // of the message it is in
	dropped    bool
}

// length is where a length prefix in data is, that changes when views are left out.
type length struct {
	from, to int // the prefix itself
	less     int // bytes fewer in what it is the length of; for a view, all
	view     bool
}

// counts are how often fields of one message have come, for the index in lists.
type counts []struct {
	number protowire.Number
	n      int
	view   int // the last view of a singular field; -1: none
}

func (c *counts) of(number protowire.Number) int {
	for i := range *c {
		if (*c)[i].number == number {
			return i
		}
	}
	*c = append(*c, struct {
		number protowire.Number
		n      int
		view   int
	}{number, 0, -1})
	return len(*c) - 1
}

// scan looks through b, a message of type md inside data at depth level. False means that the message is
// better parsed whole: it is malformed, deep, or has a singular message twice, whose parts would be merged.
func (s *splitter) scan(b []byte, md protoreflect.MessageDescriptor, level int) bool {
	if level > maxDepth {
		return false
	}
	base := cap(s.data) - cap(b) // b's place in data
	fields := md.Fields()
	var store [8]struct {
		number protowire.Number
		n      int
		view   int
	}
	seen := counts(store[:0])
	for at := 0; at < len(b); {
		number, typ, tagLen := protowire.ConsumeTag(b[at:])
		if tagLen < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, typ, b[at+tagLen:])
		if size < 0 {
			return false
		}
		value := at + tagLen
		at = value + size
		fd := fields.ByNumber(number)
		if fd == nil || fd.IsMap() {
			continue
		}
		bytesField := fd.Kind() == protoreflect.BytesKind
		nested := fd.Kind() == protoreflect.MessageKind
		if typ != protowire.BytesType || !bytesField && !nested {
			continue
		}
		c := seen.of(number)
		index := -1
		if fd.IsList() {
			index = seen[c].n
		}
		seen[c].n++
		content, prefix := protowire.ConsumeBytes(b[value:at])
		prefix -= len(content)
		start := base + value + prefix
		switch {
		case bytesField && len(content) >= LendFrom:
			if index < 0 && seen[c].view >= 0 {
				s.views[seen[c].view].dropped = true
			}
			seen[c].view = len(s.views)
			s.lengths = append(s.lengths, length{base + value, start, len(content), true})
			s.addView(step{fd, index}, start, start+len(content), level)
		case bytesField:
			if index < 0 && seen[c].view >= 0 { // a later, short value of the field
				s.views[seen[c].view].dropped = true
				seen[c].view = -1
			}
		case len(content) >= LendFrom || index < 0:
			if index < 0 && seen[c].n > 1 {
				return false
			}
			if len(content) < LendFrom {
				continue
			}
			if !s.inner(step{fd, index}, content, base+value, start, level) {
				return false
			}
		}
	}
	return true
}

// inner scans a message in a message.
func (s *splitter) inner(st step, content []byte, prefix, start, level int) bool {
	mine := len(s.lengths)
	s.lengths = append(s.lengths, length{from: prefix, to: start})
	s.at = append(s.at, st)
	ok := s.scan(content, st.fd.Message(), level+1)
	s.at = s.at[:len(s.at)-1]
	for _, l := range s.lengths[mine+1:] {
		if l.view {
			s.lengths[mine].less += l.less + (l.to - l.from) - 1
		} else if l.less > 0 {
			s.lengths[mine].less += l.to - l.from - protowire.SizeVarint(uint64(s.lengthOf(l)-l.less))
		}
	}
	if s.lengths[mine].less == 0 {
		s.lengths = slices.Delete(s.lengths, mine, mine+1)
	}
	return ok
}

// lengthOf reads a length prefix.
func (s *splitter) lengthOf(l length) int {
	n, _ := protowire.ConsumeVarint(s.data[l.from:l.to])
	return int(n)
}

func (s *splitter) addView(st step, from, to, level int) {
	first := len(s.steps)
	s.steps = append(s.steps, s.at...)
	s.views = append(s.views, view{step: st, from: from, to: to, first: first, end: len(s.steps), level: level})
}

// restLen is the length of the message without its views' content.
func (s *splitter) restLen() int {
	n := len(s.data)
	for _, l := range s.lengths {
		if l.view {
			n -= l.less + (l.to - l.from) - 1
		} else {
			n -= l.to - l.from - protowire.SizeVarint(uint64(s.lengthOf(l)-l.less))
		}
	}
	return n
}

// appendRest appends the message with each view empty.
func (s *splitter) appendRest(dst []byte) []byte {
	at := 0
	for _, l := range s.lengths {
		dst = append(dst, s.data[at:l.from]...)
		if l.view {
			dst = append(dst, 0)
			at = l.to + l.less
			continue
		}
		dst = protowire.AppendVarint(dst, uint64(s.lengthOf(l)-l.less))
		at = l.to
	}
	return append(dst, s.data[at:]...)
}

// set makes a field of r the view of its content.
func (s *splitter) set(r protoreflect.Message, v view) {
	for _, st := range s.steps[v.first:v.end] {
		if !r.Has(st.fd) {
			return // another member of its oneof came later
		}
		if st.index >= 0 {
			r = r.Mutable(st.fd).List().Get(st.index).Message()
		} else {
			r = r.Mutable(st.fd).Message()
		}
	}
	value := protoreflect.ValueOfBytes(s.data[v.from:v.to:v.to])
	switch {
	case v.index >= 0:
		r.Mutable(v.fd).List().Set(v.index, value)
	case v.fd.ContainingOneof() == nil || r.Has(v.fd):
		r.Set(v.fd, value)
	}
}
