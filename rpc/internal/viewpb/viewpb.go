// Package viewpb decodes protobuf messages whose strings and bytes fields are views of what they are decoded from, and whose repeated messages
// are allocated together. It has no errors: what is malformed or unusual is left to protobuf-go, so that what is accepted, and why not,
// stays protobuf-go's.
package viewpb

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Lend returns the memory that a field of a message refers to, given the field's content as received. It may return a copy.
type Lend func(fd protoreflect.FieldDescriptor, content []byte) []byte

// Unmarshal sets m to what b says. Strings and bytes fields are what lend returns, or, if lend is nil, views of b, valid while b is
// and does not change. It returns false where protobuf-go must decode the message; m is empty then.
func Unmarshal(b []byte, m proto.Message, lend Lend) bool {
	p := planOf(m)
	if p == nil {
		return false
	}
	d := decoder{lend: lend}
	proto.Reset(m)
	if !d.message(p, structOf(m), b) || p.required && proto.CheckInitialized(m) != nil {
		proto.Reset(m)
		return false
	}
	return true
}
