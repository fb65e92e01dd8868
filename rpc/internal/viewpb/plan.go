package viewpb

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/runtime/protoimpl"
)

// plan says how messages of one Go type are decoded. It is made once, from the type's descriptor and the tags of its struct's fields, which
// are the API that protoc-gen-go calls open.
type plan struct {
	goType   reflect.Type // the struct
	slice    reflect.Type // of these
	fields   []*field     // by number, as far as these are below maxDense
	rest     map[protowire.Number]*field
	required bool // some field of the message, or of one inside, is; of the outermost message's plan
}

// maxDense bounds the numbers of fields that are found by index.
const maxDense = 128

// field is one field of a message.
type field struct {
	fd      protoreflect.FieldDescriptor
	number  protowire.Number
	index   int                             // in the struct
	set     func(value, reflect.Value) bool // sets a variable of the field's type; of a list, of its elements' type
	typ     protowire.Type                  // of a value
	list    bool
	text    bool // its values are strings
	utf8    bool
	goType  reflect.Type // of a map
	inner   *plan        // of messages, and of a map's values that are messages
	wrapper reflect.Type // the struct of a member of a oneof
	key     *field       // of a map
	elem    *field       // of a map: its value
}

// plans has the plan of each type of message in the program; nil: it is not supported.
var plans sync.Map // of reflect.Type to *plan

// planOf returns the plan of m's type; nil: protobuf-go decodes it.
func planOf(m proto.Message) *plan {
	t := reflect.TypeOf(m)
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	c := compiler{made: map[reflect.Type]*plan{}}
	p := c.message(m.ProtoReflect())
	if c.unsupported || p.goType != t.Elem() {
		p = nil
	} else {
		p.required = c.required
	}
	plans.Store(t, p)
	return p
}

// structOf is the struct of a generated message.
func structOf(m proto.Message) reflect.Value { return reflect.ValueOf(m).Elem() }

// compiler makes the plan of a type and those of the messages inside, which may contain each other.
type compiler struct {
	made        map[reflect.Type]*plan
	required    bool
	unsupported bool
}

func (c *compiler) refuse() *plan {
	c.unsupported = true
	return nil
}

// message makes the plan of m's type.
func (c *compiler) message(m protoreflect.Message) *plan {
	info, ok := m.Type().(*protoimpl.MessageInfo)
	if !ok {
		return c.refuse() // of another implementation than protobuf-go's for generated messages
	}
	md, t := m.Descriptor(), reflect.TypeOf(m.Interface())
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || md.ExtensionRanges().Len() > 0 {
		return c.refuse()
	}
	if _, ok := m.Interface().(interface{ Unmarshal([]byte) error }); ok {
		return c.refuse()
	}
	t = t.Elem()
	if p := c.made[t]; p != nil {
		return p
	}
	p := &plan{goType: t, slice: reflect.SliceOf(t)}
	c.made[t] = p
	c.required = c.required || md.RequiredNumbers().Len() > 0
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		f := c.field(m, fd, t, info)
		if f == nil {
			return c.refuse()
		}
		p.add(f)
	}
	return p
}

func (p *plan) add(f *field) {
	if f.number >= maxDense {
		if p.rest == nil {
			p.rest = map[protowire.Number]*field{}
		}
		p.rest[f.number] = f
		return
	}
	for int(f.number) >= len(p.fields) {
		p.fields = append(p.fields, nil)
	}
	p.fields[f.number] = f
}

// field returns the field of a number; nil: the message has none.
func (p *plan) field(n protowire.Number) *field {
	if int(n) < len(p.fields) {
		return p.fields[n]
	}
	return p.rest[n]
}

// field makes the plan of one field of the struct t; nil: it is not supported.
func (c *compiler) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, t reflect.Type, info *protoimpl.MessageInfo) *field {
	f := &field{fd: fd, number: fd.Number()}
	var goField reflect.StructField
	var ok bool
	if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
		if goField, f.wrapper, ok = memberOf(t, info, o, fd); !ok {
			return nil
		}
		f.index = goField.Index[0]
		goField = f.wrapper.Field(0)
	} else if goField, ok = fieldOf(t, fd.Number()); ok {
		f.index = goField.Index[0]
	}
	if !ok || !goField.IsExported() {
		return nil
	}
	switch {
	case fd.IsMap():
		return c.entries(f, m, goField.Type)
	case fd.IsList():
		f.list = true
		if goField.Type.Kind() != reflect.Slice {
			return nil
		}
		return c.value(f, goField.Type.Elem(), func() protoreflect.Message { return m.NewField(fd).List().NewElement().Message() })
	default:
		return c.value(f, goField.Type, func() protoreflect.Message { return m.NewField(fd).Message() })
	}
}

// value completes f for values of type t.
func (c *compiler) value(f *field, t reflect.Type, fresh func() protoreflect.Message) *field {
	f.text = f.fd.Kind() == protoreflect.StringKind && t.Kind() == reflect.String
	f.utf8 = f.fd.Kind() == protoreflect.StringKind && enforcesUTF8(f.fd)
	if f.fd.Kind() == protoreflect.MessageKind {
		m := fresh()
		if t != reflect.TypeOf(m.Interface()) {
			return nil
		}
		if f.inner = c.message(m); f.inner == nil {
			return nil
		}
		f.typ = protowire.BytesType
		return f
	}
	if f.typ, f.set = setter(f, t); f.set == nil {
		return nil
	}
	return f
}

// entries completes f for a map of type t.
func (c *compiler) entries(f *field, m protoreflect.Message, t reflect.Type) *field {
	if t.Kind() != reflect.Map {
		return nil
	}
	f.typ, f.goType = protowire.BytesType, t
	f.key = c.value(&field{fd: f.fd.MapKey(), number: 1}, t.Key(), nil)
	f.elem = c.value(&field{fd: f.fd.MapValue(), number: 2}, t.Elem(), func() protoreflect.Message { return m.NewField(f.fd).Map().NewValue().Message() })
	if f.key == nil || f.elem == nil {
		return nil
	}
	f.inner = f.elem.inner
	return f
}

// enforcesUTF8 reports whether a string that is not UTF-8 is an error. protobuf-go's descriptors have the method for its own parser.
func enforcesUTF8(fd protoreflect.FieldDescriptor) bool {
	if fd, ok := fd.(interface{ EnforceUTF8() bool }); ok {
		return fd.EnforceUTF8()
	}
	return fd.Syntax() == protoreflect.Proto3
}

// fieldOf finds the field of a struct by its number.
func fieldOf(t reflect.Type, n protowire.Number) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); numberOf(f) == n {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// numberOf is the field's number in its tag; 0: it has none.
func numberOf(f reflect.StructField) protowire.Number {
	parts := strings.SplitN(f.Tag.Get("protobuf"), ",", 3)
	if len(parts) < 3 {
		return 0
	}
	n, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return 0
	}
	return protowire.Number(n)
}

// memberOf finds the field of a struct that holds the oneof o, and the struct of its member fd.
func memberOf(t reflect.Type, info *protoimpl.MessageInfo, o protoreflect.OneofDescriptor, fd protoreflect.FieldDescriptor) (in reflect.StructField, wrapper reflect.Type, ok bool) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("protobuf_oneof") == string(o.Name()) && f.IsExported() {
			in, ok = f, true
		}
	}
	if !ok {
		return in, nil, false
	}
	for _, w := range info.OneofWrappers {
		p := reflect.TypeOf(w)
		if p.Kind() == reflect.Pointer && p.Elem().Kind() == reflect.Struct && p.Elem().NumField() == 1 && numberOf(p.Elem().Field(0)) == fd.Number() && p.Implements(in.Type) {
			return in, p.Elem(), true
		}
	}
	return in, nil, false
}
