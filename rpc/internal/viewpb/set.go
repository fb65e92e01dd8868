package viewpb

import (
	"math"
	"reflect"

	"github.com/tarn-go/tarn/internal/view"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// setter returns the wire type of f's values, and a function that sets a variable of type t to one; nil: there is none. The function returns false
// where protobuf-go must decode the message.
func setter(f *field, t reflect.Type) (protowire.Type, func(value, reflect.Value) bool) {
	kind, pointer := t.Kind(), t.Kind() == reflect.Pointer
	if pointer {
		kind = t.Elem().Kind()
	}
	typ, want, set := ofKind(f.fd)
	if kind != want || want == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		return typ, nil
	}
	if !pointer {
		return typ, set
	}
	return typ, func(v value, to reflect.Value) bool {
		p := reflect.New(t.Elem())
		if !set(v, p.Elem()) {
			return false
		}
		to.Set(p)
		return true
	}
}

// ofKind returns the wire type of a field's values, the kind of its Go type, and how a variable of it is set.
func ofKind(fd protoreflect.FieldDescriptor) (protowire.Type, reflect.Kind, func(value, reflect.Value) bool) {
	signed := func(convert func(uint64) int64) func(value, reflect.Value) bool {
		return func(v value, to reflect.Value) bool { to.SetInt(convert(v.num)); return true }
	}
	unsigned := func(convert func(uint64) uint64) func(value, reflect.Value) bool {
		return func(v value, to reflect.Value) bool { to.SetUint(convert(v.num)); return true }
	}
	narrow := func(x uint64) int64 { return int64(int32(x)) }
	wide := func(x uint64) int64 { return int64(x) }
	same := func(x uint64) uint64 { return x }
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protowire.VarintType, reflect.Bool, func(v value, to reflect.Value) bool { to.SetBool(protowire.DecodeBool(v.num)); return true }
	case protoreflect.EnumKind:
		if values := fd.Enum().Values(); fd.Enum().IsClosed() {
			return protowire.VarintType, reflect.Int32, func(v value, to reflect.Value) bool { // others are unknown fields
				to.SetInt(narrow(v.num))
				return values.ByNumber(protoreflect.EnumNumber(narrow(v.num))) != nil
			}
		}
		return protowire.VarintType, reflect.Int32, signed(narrow)
	case protoreflect.Int32Kind:
		return protowire.VarintType, reflect.Int32, signed(narrow)
	case protoreflect.Sint32Kind:
		return protowire.VarintType, reflect.Int32, signed(func(x uint64) int64 { return int64(int32(protowire.DecodeZigZag(x & math.MaxUint32))) })
	case protoreflect.Sfixed32Kind:
		return protowire.Fixed32Type, reflect.Int32, signed(narrow)
	case protoreflect.Uint32Kind:
		return protowire.VarintType, reflect.Uint32, unsigned(func(x uint64) uint64 { return uint64(uint32(x)) })
	case protoreflect.Fixed32Kind:
		return protowire.Fixed32Type, reflect.Uint32, unsigned(same)
	case protoreflect.Int64Kind:
		return protowire.VarintType, reflect.Int64, signed(wide)
	case protoreflect.Sint64Kind:
		return protowire.VarintType, reflect.Int64, signed(protowire.DecodeZigZag)
	case protoreflect.Sfixed64Kind:
		return protowire.Fixed64Type, reflect.Int64, signed(wide)
	case protoreflect.Uint64Kind:
		return protowire.VarintType, reflect.Uint64, unsigned(same)
	case protoreflect.Fixed64Kind:
		return protowire.Fixed64Type, reflect.Uint64, unsigned(same)
	case protoreflect.FloatKind:
		return protowire.Fixed32Type, reflect.Float32, func(v value, to reflect.Value) bool {
			to.SetFloat(float64(math.Float32frombits(uint32(v.num))))
			return true
		}
	case protoreflect.DoubleKind:
		return protowire.Fixed64Type, reflect.Float64, func(v value, to reflect.Value) bool { to.SetFloat(math.Float64frombits(v.num)); return true }
	case protoreflect.StringKind:
		return protowire.BytesType, reflect.String, func(v value, to reflect.Value) bool { to.SetString(view.String(v.bytes)); return true }
	case protoreflect.BytesKind:
		return protowire.BytesType, reflect.Slice, func(v value, to reflect.Value) bool {
			b := v.bytes[:len(v.bytes):len(v.bytes)]
			if b == nil {
				b = []byte{} // present, as opposed to absent
			}
			to.SetBytes(b)
			return true
		}
	}
	return 0, reflect.Invalid, nil
}
