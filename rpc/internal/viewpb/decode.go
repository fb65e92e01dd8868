package viewpb

import (
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/tarn-go/tarn/internal/view"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDepth is how many levels of nested messages are decoded here. protobuf-go decodes more.
const maxDepth = 100

// decoder decodes one message. Its methods return false where protobuf-go must decode it.
type decoder struct {
	lend  Lend
	depth int
}

// value is a field's value as it is on the wire.
type value struct {
	num   uint64
	bytes []byte
}

// message fills the struct s from b.
func (d *decoder) message(p *plan, s reflect.Value, b []byte) bool {
	if d.depth++; d.depth > maxDepth {
		return false
	}
	var unknown []byte
	var room slab
	for len(b) > 0 {
		n, typ, tag := consumeTag(b)
		if tag < 0 {
			return false
		}
		f := p.field(n)
		if f == nil {
			all := protowire.ConsumeFieldValue(n, typ, b[tag:])
			if all < 0 {
				return false
			}
			unknown = append(unknown, b[:tag+all]...)
			b = b[tag+all:]
			continue
		}
		v, took, ok := read(typ, b[tag:])
		if !ok || !d.field(f, s.Field(f.index), v, typ, &room, b) {
			return false
		}
		b = b[tag+took:]
	}
	if unknown != nil {
		r := s.Addr().Interface().(proto.Message).ProtoReflect()
		r.SetUnknown(append(slices.Clip(r.GetUnknown()), unknown...))
	}
	d.depth--
	return true
}

// consumeTag is protowire.ConsumeTag, which is not inlined. Most tags are one byte.
func consumeTag(b []byte) (protowire.Number, protowire.Type, int) {
	if len(b) > 0 && b[0] >= 1<<3 && b[0] < 0x80 {
		return protowire.Number(b[0] >> 3), protowire.Type(b[0] & 7), 1
	}
	return protowire.ConsumeTag(b)
}

// read parses a value.
func read(typ protowire.Type, b []byte) (v value, n int, ok bool) {
	if typ == protowire.BytesType && len(b) > 0 && int(b[0]) < len(b) && b[0] < 0x80 {
		n = 1 + int(b[0])
		return value{bytes: b[1:n]}, n, true
	}
	switch typ {
	case protowire.VarintType:
		v.num, n = protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		var x uint32
		x, n = protowire.ConsumeFixed32(b)
		v.num = uint64(x)
	case protowire.Fixed64Type:
		v.num, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		v.bytes, n = protowire.ConsumeBytes(b)
	default:
		return v, 0, false // groups
	}
	return v, n, n >= 0
}

// field sets or adds to the field of a struct. rest begins with the field's tag.
func (d *decoder) field(f *field, to reflect.Value, v value, typ protowire.Type, room *slab, rest []byte) bool {
	switch {
	case f.key != nil:
		return typ == f.typ && d.entry(f, to, v.bytes)
	case f.wrapper != nil:
		if typ != f.typ || !to.IsNil() && f.inner != nil {
			return false // messages of a oneof that comes twice are merged
		}
		w := reflect.New(f.wrapper)
		if !d.single(f, w.Elem().Field(0), v) {
			return false
		}
		to.Set(w)
		return true
	case !f.list:
		return typ == f.typ && d.single(f, to, v)
	case f.inner != nil:
		if typ != f.typ {
			return false
		}
		m, n := room.next(f, rest), to.Len()
		if n == to.Cap() {
			to.Grow(1 + room.left())
		}
		to.SetLen(n + 1)
		to.Index(n).Set(m.Addr())
		return d.message(f.inner, m, v.bytes)
	case typ == f.typ:
		n := to.Len()
		to.Grow(1)
		to.SetLen(n + 1)
		return d.single(f, to.Index(n), v)
	case typ == protowire.BytesType:
		return d.packed(f, to, v.bytes)
	}
	return false
}

// single sets a field, an element of a list, or a member of a oneof.
func (d *decoder) single(f *field, to reflect.Value, v value) bool {
	if f.inner != nil {
		if to.IsNil() {
			to.Set(reflect.New(f.inner.goType))
		}
		return d.message(f.inner, to.Elem(), v.bytes)
	}
	if f.typ == protowire.BytesType {
		if f.utf8 && !utf8.Valid(v.bytes) {
			return false
		}
		if d.lend != nil {
			v.bytes = d.lend(f.fd, v.bytes)
		}
	}
	if f.text {
		to.SetString(view.String(v.bytes))
		return true
	}
	return f.set(v, to)
}

// packed adds numbers to a list.
func (d *decoder) packed(f *field, to reflect.Value, b []byte) bool {
	n := 0
	switch f.typ {
	case protowire.VarintType:
		for _, c := range b {
			if c < 0x80 {
				n++
			}
		}
	case protowire.Fixed32Type:
		n = len(b) / 4
	case protowire.Fixed64Type:
		n = len(b) / 8
	}
	i := to.Len()
	to.Grow(n)
	to.SetLen(i + n)
	for ; len(b) > 0; i++ {
		v, took, ok := read(f.typ, b)
		if !ok || i == to.Len() || !f.set(v, to.Index(i)) {
			return false
		}
		b = b[took:]
	}
	return true
}

// entry adds an entry to a map.
func (d *decoder) entry(f *field, to reflect.Value, b []byte) bool {
	var key, elem value
	complete := f.elem.fd.Kind() != protoreflect.EnumKind // whose default may not be zero
	for len(b) > 0 {
		n, typ, tag := consumeTag(b)
		if tag < 0 {
			return false
		}
		v, took, ok := read(typ, b[tag:])
		if !ok {
			return false
		}
		switch {
		case n == 1 && typ == f.key.typ:
			key = v
		case n == 2 && typ == f.elem.typ && (f.inner == nil || elem.bytes == nil): // two messages are merged
			elem, complete = v, true
		default:
			return false
		}
		b = b[tag+took:]
	}
	if !complete {
		return false
	}
	if to.IsNil() {
		to.Set(reflect.MakeMap(f.goType))
	}
	if texts, ok := to.Interface().(map[string]string); ok {
		if f.key.utf8 && !utf8.Valid(key.bytes) || f.elem.utf8 && !utf8.Valid(elem.bytes) {
			return false
		}
		if d.lend != nil {
			key.bytes, elem.bytes = d.lend(f.fd, key.bytes), d.lend(f.fd, elem.bytes)
		}
		texts[view.String(key.bytes)] = view.String(elem.bytes)
		return true
	}
	k, e := reflect.New(f.goType.Key()).Elem(), reflect.New(f.goType.Elem()).Elem()
	if !d.single(f.key, k, key) || !d.single(f.elem, e, elem) {
		return false
	}
	to.SetMapIndex(k, e)
	return true
}

// slab has the structs of a list's next elements, allocated together.
type slab struct {
	of   *field
	all  reflect.Value // a slice of structs
	used int
}

// next returns the struct of the element with which rest begins.
func (s *slab) next(f *field, rest []byte) reflect.Value {
	if s.of != f || s.left() == 0 {
		n := run(f.number, rest)
		*s = slab{of: f, all: reflect.MakeSlice(f.inner.slice, n, n)}
	}
	s.used++
	return s.all.Index(s.used - 1)
}

// left is how many structs have not been used.
func (s *slab) left() int { return s.all.Len() - s.used }

// maxRun bounds how many structs are allocated together, which live as long as one of them does.
const maxRun = 128

// run counts the fields of a number with which b begins, up to maxRun. So no more is allocated than there are elements.
func run(number protowire.Number, b []byte) int {
	n := 0
	for len(b) > 0 && n < maxRun {
		at, typ, tag := consumeTag(b)
		if tag < 0 || at != number || typ != protowire.BytesType {
			break
		}
		_, took := protowire.ConsumeBytes(b[tag:])
		if took < 0 {
			break
		}
		b = b[tag+took:]
		n++
	}
	return max(n, 1)
}
