package jsonpb

import (
	"bytes"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// reader writes the wire format of a message that it reads from JSON. Its methods report whether they could:
// what is unusual, and what is wrong, is left to protojson. Those that return a place return a negative one if they
// could not.
type reader struct {
	scanner
	room
	lenSize int      // of the lengths that are written before what they are the length of
	depth   int      // of nested values
	seen    []uint64 // bits of the fields of the messages that are being read, the innermost last
	keys    []span   // the keys of the maps that are being read
}

// span is a part of the wire format.
type span struct{ start, end int }

// readers are reused.
var readers = sync.Pool{New: func() any { return new(reader) }}

// maxDepth is how deeply values are nested that are not left to protojson.
const maxDepth = 100

// maxKept is the number of elements up to which a reader's slices are reused.
const maxKept = 1 << 10

// enter and leave count nested values.
func (r *reader) enter() bool { r.depth++; return r.depth <= maxDepth }
func (r *reader) leave() bool { r.depth--; return true }

// message reads a message of p's type.
func (r *reader) message(p *plan) bool {
	switch p.form {
	case timestamp:
		return r.timestamp()
	case duration:
		return r.duration()
	case wrapper:
		return r.one(&p.fields[0])
	case foreign:
		return false
	}
	if !r.skip('{') || !r.enter() {
		return false
	}
	from := len(r.seen)
	for range (p.bits + 63) / 64 {
		r.seen = append(r.seen, 0)
	}
	next := 0 // the field after the last one
	for first := true; !r.skip('}'); first = false {
		if !first && !r.skip(',') {
			return false
		}
		f, ok := r.name(p, next)
		if !ok || !r.skip(':') {
			return false
		}
		if f == nil {
			if !r.ignore() {
				return false
			}
			continue
		}
		next = f.bit + 1
		if !r.mark(from, f.bit) || !r.set(f, from) {
			return false
		}
	}
	r.seen = r.seen[:from]
	return r.leave()
}

// mark sets a bit of the message whose bits begin at from. It reports whether it was not set.
func (r *reader) mark(from, bit int) bool {
	word, mask := from+bit/64, uint64(1)<<(bit%64)
	ok := r.seen[word]&mask == 0
	r.seen[word] |= mask
	return ok
}

// tried is how many fields are tried before one is looked up by its name.
const tried = 4

// name reads the name of a field, which is probably one of those that follow next. f is nil if it is unknown.
func (r *reader) name(p *plan, next int) (f *field, ok bool) {
	r.space()
	for i := next; i < min(next+tried, len(p.fields)); i++ {
		f := &p.fields[i]
		if f.name != nil && bytes.HasPrefix(r.text[r.at:], f.name) {
			r.at += len(f.name)
			return f, true
		}
	}
	end := len(r.b)
	start := r.string()
	if start < 0 {
		return nil, false
	}
	name := r.b[start:]
	f = p.byName[string(name)]
	r.b = r.b[:end]
	return f, f != nil || !extension(string(name))
}

// set reads a field's value of the message whose bits begin at from.
func (r *reader) set(f *field, from int) bool {
	r.space()
	switch {
	case r.literal("null"):
		return !f.nullable
	case f.list:
		return r.array(f)
	case f.key != nil:
		return r.entries(f)
	}
	return (f.oneof < 0 || r.mark(from, f.oneof)) && r.one(f)
}

// one writes a tag and reads the value for it.
func (r *reader) one(f *field) bool {
	r.reserve(fixedLen)
	r.b = protowire.AppendVarint(r.b, f.tag)
	return r.value(f)
}

// value reads a value. The caller has reserved memory for a number.
func (r *reader) value(f *field) bool {
	switch f.kind {
	case protoreflect.StringKind:
		return r.string() >= 0
	case protoreflect.BytesKind:
		return r.bytes()
	case protoreflect.MessageKind:
		at := r.open()
		return r.message(f.message()) && r.close(at)
	case protoreflect.GroupKind:
		if !r.message(f.message()) {
			return false
		}
		r.reserve(fixedLen)
		r.b = protowire.AppendTag(r.b, f.fd.Number(), protowire.EndGroupType)
		return true
	}
	v, ok := r.scalar(f)
	r.b = f.append(r.b, v)
	return ok
}

// open leaves memory for a length, and returns where.
func (r *reader) open() int {
	at := len(r.b)
	r.reserve(fixedLen)
	r.b = r.b[:at+r.lenSize]
	return at
}

// close sets the length of what has been written since open, in as many bytes as open has left.
func (r *reader) close(at int) bool {
	n := len(r.b) - at - r.lenSize
	for i := range r.lenSize {
		r.b[at+i] = byte(n) | 0x80
		n >>= 7
	}
	r.b[at+r.lenSize-1] &^= 0x80
	return n == 0
}

// array reads a list.
func (r *reader) array(f *field) bool {
	if !r.skip('[') {
		return false
	}
	if r.skip(']') {
		return true
	}
	at := 0
	if f.packed != 0 {
		r.reserve(fixedLen)
		r.b = protowire.AppendVarint(r.b, f.packed)
		at = r.open()
	}
	for {
		r.reserve(fixedLen)
		if f.packed == 0 {
			r.b = protowire.AppendVarint(r.b, f.tag)
		}
		if !r.value(f) {
			return false
		}
		if r.skip(']') {
			return f.packed == 0 || r.close(at)
		}
		if !r.skip(',') {
			return false
		}
	}
}

// entries reads a map.
func (r *reader) entries(f *field) bool {
	if !r.skip('{') {
		return false
	}
	from := len(r.keys)
	for first := true; !r.skip('}'); first = false {
		if !first && !r.skip(',') {
			return false
		}
		r.reserve(fixedLen)
		r.b = protowire.AppendVarint(r.b, f.tag)
		at := r.open()
		r.b = protowire.AppendVarint(r.b, f.key.tag)
		start := r.key(f.key)
		if start < 0 || !r.skip(':') {
			return false
		}
		r.keys = append(r.keys, span{start, len(r.b)})
		if !r.one(f.value) || !r.close(at) {
			return false
		}
	}
	ok := r.unique(r.keys[from:])
	r.keys = r.keys[:from]
	return ok
}

// key reads a map's key, and returns where its content begins.
func (r *reader) key(f *field) int {
	if f.number == none {
		return r.string()
	}
	if !r.skip('"') {
		return -1
	}
	var v uint64
	var ok bool
	if f.number == boolean {
		v, ok = r.boolean()
	} else {
		v, ok = r.decimal(f)
	}
	if !ok || !r.literal(`"`) {
		return -1
	}
	start := len(r.b)
	r.b = f.append(r.b, v)
	return start
}

// unique reports whether no two of the keys are equal.
func (r *reader) unique(keys []span) bool {
	if len(keys) < 2 {
		return true
	}
	compare := func(x, y span) int { return bytes.Compare(r.b[x.start:x.end], r.b[y.start:y.end]) }
	slices.SortFunc(keys, compare)
	for i := 1; i < len(keys); i++ {
		if compare(keys[i-1], keys[i]) == 0 {
			return false
		}
	}
	return true
}
