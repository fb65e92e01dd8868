package jsonpb

import (
	"bytes"
	"cmp"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// writer writes JSON from a message's wire format. Its methods report whether they could; protojson finds out
// what is wrong. Those that return a length return a negative one if they could not.
type writer struct{ room }

// fixedLen is more than what a value and the punctuation around it take, without the text of strings, bytes and
// enums. It is reserved before a field or an element is written.
const fixedLen = 64

// message writes the message of p's type whose wire format is wire.
func (w *writer) message(p *plan, wire []byte) bool {
	switch p.form {
	case timestamp, duration:
		return w.pair(p, wire)
	case wrapper:
		return w.wrapped(&p.fields[0], wire)
	case foreign:
		return false
	}
	w.reserve(fixedLen)
	w.b = append(w.b, '{')
	var ok bool
	if p.inOrder {
		_, ok = w.members(p, wire, -1)
	} else {
		ok = w.sorted(p, wire)
	}
	w.reserve(fixedLen)
	w.b = append(w.b, '}')
	return ok
}

// members writes fields that are in the order of their declaration, after the one whose bit is last. It returns the bit of the last one.
func (w *writer) members(p *plan, wire []byte, last int) (int, bool) {
	for len(wire) > 0 {
		tag, n := protowire.ConsumeVarint(wire)
		if n < 0 {
			return last, false
		}
		num, typ := protowire.DecodeTag(tag)
		f := p.field(num)
		if f == nil {
			m := protowire.ConsumeFieldValue(num, typ, wire[n:])
			if m < 0 || p.extensible {
				return last, false
			}
			wire = wire[n+m:]
			continue
		}
		if f.bit <= last {
			return last, false
		}
		w.reserve(len(f.label) + fixedLen)
		if last >= 0 {
			w.b = append(w.b, ',')
		}
		last = f.bit
		w.b = append(w.b, f.label...)
		switch {
		case f.list:
			n = w.array(f, wire)
		case f.key != nil:
			n = w.entries(f, wire)
		case tag == f.tag:
			m := w.value(f, wire[n:])
			if m < 0 {
				return last, false
			}
			n += m
		default:
			return last, false
		}
		if n < 0 {
			return last, false
		}
		wire = wire[n:]
	}
	return last, true
}

// one writes a value that follows its tag, and returns the length of both.
func (w *writer) one(f *field, wire []byte) int {
	tag, n := protowire.ConsumeVarint(wire)
	if n < 0 || tag != f.tag {
		return -1
	}
	m := w.value(f, wire[n:])
	if m < 0 {
		return -1
	}
	return n + m
}

// value writes a value, and returns its length in wire.
func (w *writer) value(f *field, wire []byte) int {
	if f.number != none {
		v, n := f.consume(wire)
		if n < 0 || v == 0 && f.implicit {
			return -1
		}
		w.scalar(f, v)
		return n
	}
	var content []byte
	var n int
	if f.wire == protowire.StartGroupType {
		content, n = protowire.ConsumeGroup(f.fd.Number(), wire)
	} else {
		content, n = protowire.ConsumeBytes(wire)
	}
	if n < 0 || len(content) == 0 && f.implicit {
		return -1
	}
	ok := true
	switch f.kind {
	case protoreflect.StringKind:
		ok = w.text(content)
	case protoreflect.BytesKind:
		w.base64(content)
	default:
		ok = w.message(f.message(), content)
	}
	if !ok {
		return -1
	}
	return n
}

// array writes the list with which wire begins, and returns its length.
func (w *writer) array(f *field, wire []byte) int {
	w.b = append(w.b, '[')
	from := len(w.b)
	at := 0
	for at < len(wire) {
		tag, n := protowire.ConsumeVarint(wire[at:])
		if n < 0 {
			return -1
		}
		var values []byte
		m := 0
		switch tag {
		case f.tag:
			if m = w.element(f, wire[at+n:], from); m < 0 {
				return -1
			}
		case f.packed:
			if values, m = protowire.ConsumeBytes(wire[at+n:]); m < 0 {
				return -1
			}
			for len(values) > 0 {
				n := w.element(f, values, from)
				if n < 0 {
					return -1
				}
				values = values[n:]
			}
		default:
			return w.end(']', from, at)
		}
		at += n + m
	}
	return w.end(']', from, at)
}

// end ends the list or map whose content begins at from, and returns n. An empty one is not written by protojson.
func (w *writer) end(c byte, from, n int) int {
	if len(w.b) == from {
		return -1
	}
	w.reserve(fixedLen)
	w.b = append(w.b, c)
	return n
}

// element writes an element of the list whose content begins at from.
func (w *writer) element(f *field, wire []byte, from int) int {
	w.reserve(fixedLen)
	if len(w.b) > from {
		w.b = append(w.b, ',')
	}
	return w.value(f, wire)
}

// entries writes the map with which wire begins, and returns its length. The keys must ascend.
func (w *writer) entries(f *field, wire []byte) int {
	w.b = append(w.b, '{')
	from := len(w.b)
	at := 0
	var before []byte
	for at < len(wire) {
		tag, n := protowire.ConsumeVarint(wire[at:])
		if n < 0 || tag != f.tag {
			break
		}
		content, m := protowire.ConsumeBytes(wire[at+n:])
		if m < 0 || len(content) == 0 {
			return -1
		}
		at += n + m
		k := protowire.ConsumeFieldValue(1, f.key.wire, content[1:])
		if k < 0 {
			return -1
		}
		key := content[:1+k]
		if before != nil && f.key.compare(before, key) >= 0 {
			return -1
		}
		w.reserve(fixedLen)
		if before != nil {
			w.b = append(w.b, ',')
		}
		before = key
		if !w.name(f.key, key) || w.one(f.value, content[len(key):]) != len(content)-len(key) {
			return -1
		}
	}
	return w.end('}', from, at)
}

// name writes a map's key and a colon.
func (w *writer) name(f *field, wire []byte) bool {
	quoted := f.number == none || f.quoted
	if !quoted {
		w.b = append(w.b, '"')
	}
	if w.one(f, wire) != len(wire) {
		return false
	}
	if !quoted {
		w.b = append(w.b, '"')
	}
	w.reserve(fixedLen)
	w.b = append(w.b, ':')
	return true
}

// compare compares two keys in wire format, which follow their tags and are well-formed.
func (f *field) compare(a, b []byte) int {
	if f.number == none {
		x, _ := protowire.ConsumeBytes(a[1:])
		y, _ := protowire.ConsumeBytes(b[1:])
		return bytes.Compare(x, y)
	}
	x, _ := f.consume(a[1:])
	y, _ := f.consume(b[1:])
	if f.number == signed {
		return cmp.Compare(int64(x), int64(y))
	}
	return cmp.Compare(x, y)
}
