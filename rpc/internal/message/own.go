package message

import (
	"bytes"
	"reflect"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoimpl"
)

// A message's own Unmarshal method may keep views of its argument: gogo/protobuf's custom types do, and types whose strings are made
// without a copy. Such methods get memory that is not used again. protobuf-go's parser copies what it keeps, and so does vtprotobuf's
// UnmarshalVT, so these read from the pool's memory.

// own returns the bytes of m in memory that nobody else uses.
func own(m *Message) []byte { return bytes.Clone(m.Flatten()) }

// copying has, for each type of message, whether proto.Unmarshal keeps no view. There are as many as types in the program.
var copying sync.Map // of reflect.Type to bool

// copies reports whether proto.Unmarshal of m keeps no view of its input.
func copies(m proto.Message) bool {
	t := reflect.TypeOf(m)
	if known, ok := copying.Load(t); ok {
		return known.(bool)
	}
	if packageOf(t) == implPackage { // it wraps a message of the older interface, which may have an Unmarshal method
		return false
	}
	known := allCopy(m.ProtoReflect(), make(map[protoreflect.FullName]bool))
	copying.Store(t, known)
	return known
}

// The packages of protobuf-go that implement messages.
const (
	implPackage    = "google.golang.org/protobuf/internal/impl"
	dynamicPackage = "google.golang.org/protobuf/types/dynamicpb"
)

// packageOf is the package of t, or of what it points to.
func packageOf(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath()
}

// allCopy reports whether protobuf-go parses m and the messages of its fields itself.
func allCopy(m protoreflect.Message, seen map[protoreflect.FullName]bool) bool {
	switch packageOf(reflect.TypeOf(m)) {
	case dynamicPackage:
		return true
	case implPackage:
	default:
		return false
	}
	if _, ok := protoimpl.X.ProtoMessageV1Of(m.Interface()).(interface{ Unmarshal([]byte) error }); ok {
		return false
	}
	if seen[m.Descriptor().FullName()] {
		return true
	}
	seen[m.Descriptor().FullName()] = true
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if v, ok := inner(m, fields.Get(i)); ok && !allCopy(v, seen) {
			return false
		}
	}
	return true
}

// inner returns a new message of a field's type; false: the field has none.
func inner(m protoreflect.Message, fd protoreflect.FieldDescriptor) (protoreflect.Message, bool) {
	switch {
	case fd.IsMap():
		if fd.MapValue().Message() == nil {
			return nil, false
		}
		return m.NewField(fd).Map().NewValue().Message(), true
	case fd.Message() == nil:
		return nil, false
	case fd.IsList():
		return m.NewField(fd).List().NewElement().Message(), true
	}
	return m.NewField(fd).Message(), true
}
