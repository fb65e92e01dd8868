package jsonpb

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// field is what the conversions need to know of a field, of a map's key or of its value.
type field struct {
	fd   protoreflect.FieldDescriptor
	kind protoreflect.Kind
	coding
	name     []byte // in quotes; nil if it is another field's, too
	label    []byte // the name in quotes and a colon
	bit      int    // in plan.fields, and in reader.seen
	oneof    int    // the bit of its oneof, negative without one
	tag      uint64
	packed   uint64 // the tag of a packed list; 0 if there is none
	list     bool
	implicit bool   // is set if it is not zero
	nullable bool   // null is one of its values
	key      *field // of a map
	value    *field
	enum     *enum
	inner    atomic.Pointer[plan]
}

// enum has the values of an enum.
type enum struct {
	numbers map[string]int32
	names   map[int32][]byte // in quotes
}

// number is what a scalar is in JSON.
type number uint8

const (
	none number = iota // a string, bytes or a message
	boolean
	unsigned
	signed
	single
	double
	enumerated
)

// coding is how JSON and the wire format have a kind of values.
type coding struct {
	wire   protowire.Type
	number number
	max    uint64 // of integers
	quoted bool   // in JSON
	zigzag bool
}

var codings = [...]coding{
	protoreflect.BoolKind:     {wire: protowire.VarintType, number: boolean},
	protoreflect.EnumKind:     {wire: protowire.VarintType, number: enumerated, max: math.MaxInt32},
	protoreflect.Int32Kind:    {wire: protowire.VarintType, number: signed, max: math.MaxInt32},
	protoreflect.Sint32Kind:   {wire: protowire.VarintType, number: signed, max: math.MaxInt32, zigzag: true},
	protoreflect.Uint32Kind:   {wire: protowire.VarintType, number: unsigned, max: math.MaxUint32},
	protoreflect.Int64Kind:    {wire: protowire.VarintType, number: signed, max: math.MaxInt64, quoted: true},
	protoreflect.Sint64Kind:   {wire: protowire.VarintType, number: signed, max: math.MaxInt64, quoted: true, zigzag: true},
	protoreflect.Uint64Kind:   {wire: protowire.VarintType, number: unsigned, max: math.MaxUint64, quoted: true},
	protoreflect.Sfixed32Kind: {wire: protowire.Fixed32Type, number: signed, max: math.MaxInt32},
	protoreflect.Fixed32Kind:  {wire: protowire.Fixed32Type, number: unsigned, max: math.MaxUint32},
	protoreflect.FloatKind:    {wire: protowire.Fixed32Type, number: single},
	protoreflect.Sfixed64Kind: {wire: protowire.Fixed64Type, number: signed, max: math.MaxInt64, quoted: true},
	protoreflect.Fixed64Kind:  {wire: protowire.Fixed64Type, number: unsigned, max: math.MaxUint64, quoted: true},
	protoreflect.DoubleKind:   {wire: protowire.Fixed64Type, number: double},
	protoreflect.StringKind:   {wire: protowire.BytesType},
	protoreflect.BytesKind:    {wire: protowire.BytesType},
	protoreflect.MessageKind:  {wire: protowire.BytesType},
	protoreflect.GroupKind:    {wire: protowire.StartGroupType},
}

// describe sets what the descriptor says.
func (f *field) describe(fd protoreflect.FieldDescriptor) {
	f.fd, f.kind, f.list = fd, fd.Kind(), fd.IsList()
	f.coding = codings[f.kind]
	f.label = append(append([]byte{'"'}, fd.JSONName()...), '"', ':')
	f.name = f.label[:len(f.label)-1]
	f.tag = protowire.EncodeTag(fd.Number(), f.wire)
	if f.list && f.number != none {
		f.packed = protowire.EncodeTag(fd.Number(), protowire.BytesType)
	}
	switch {
	case fd.IsMap():
		f.key, f.value = new(field), new(field)
		f.key.describe(fd.MapKey())
		f.value.describe(fd.MapValue())
	case !f.list && !fd.ContainingMessage().IsMapEntry():
		f.implicit = !fd.HasPresence()
	}
	if ed := fd.Enum(); ed != nil {
		f.nullable = ed.FullName() == "google.protobuf.NullValue"
		f.enum = enumOf(ed)
	}
	if md := fd.Message(); md != nil {
		f.nullable = md.FullName() == "google.protobuf.Value"
	}
}

func enumOf(ed protoreflect.EnumDescriptor) *enum {
	values := ed.Values()
	e := &enum{make(map[string]int32, values.Len()), make(map[int32][]byte, values.Len())}
	for i := range values.Len() {
		name, n := values.Get(i).Name(), int32(values.Get(i).Number())
		e.numbers[string(name)] = n
		if e.names[n] == nil { // the first of several
			e.names[n] = append(append([]byte{'"'}, name...), '"')
		}
	}
	return e
}

// message returns the plan of the field's messages.
func (f *field) message() *plan {
	p := f.inner.Load()
	if p == nil {
		p = planOf(f.fd.Message())
		f.inner.Store(p)
	}
	return p
}

// consume reads a number in wire format as 64 bits, sign extended, and returns its length, negative if there is none.
func (f *field) consume(wire []byte) (v uint64, n int) {
	switch f.wire {
	case protowire.Fixed32Type:
		var half uint32
		half, n = protowire.ConsumeFixed32(wire)
		v = uint64(half)
	case protowire.Fixed64Type:
		return protowire.ConsumeFixed64(wire)
	default:
		v, n = protowire.ConsumeVarint(wire)
	}
	// protobuf's runtime cuts longer numbers.
	switch {
	case f.number == boolean:
		v = protowire.EncodeBool(v != 0)
	case f.zigzag && f.max == math.MaxInt32:
		v = uint64(int32(protowire.DecodeZigZag(v & math.MaxUint32)))
	case f.zigzag:
		v = uint64(protowire.DecodeZigZag(v))
	case f.max == math.MaxInt32:
		v = uint64(int32(v))
	case f.max == math.MaxUint32:
		v = uint64(uint32(v))
	}
	return v, n
}

// append appends a number as 64 bits, sign extended, to the wire format.
func (f *field) append(wire []byte, v uint64) []byte {
	switch {
	case f.wire == protowire.Fixed32Type:
		return binary.LittleEndian.AppendUint32(wire, uint32(v))
	case f.wire == protowire.Fixed64Type:
		return binary.LittleEndian.AppendUint64(wire, v)
	case f.zigzag:
		v = protowire.EncodeZigZag(int64(v))
	}
	return protowire.AppendVarint(wire, v)
}
