package jsonpb

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// plan is what the conversions need to know of a message type. It is made once, from the type's descriptor.
type plan struct {
	form       form
	fields     []field           // in the order of their declaration
	byName     map[string]*field // by JSON name and by the descriptor's
	byNumber   map[protowire.Number]*field
	low        [16]*field // those of byNumber with low numbers
	bits       int        // one for each field and oneof, to find duplicates
	inOrder    bool       // the wire format has the fields in the order of their declaration
	extensible bool
}

// form is how JSON has the messages of a type.
type form uint8

const (
	object    form = iota
	timestamp      // google.protobuf.Timestamp: a string
	duration       // google.protobuf.Duration: a string
	wrapper        // google.protobuf.Int64Value and the like: the value of their field
	foreign        // left to protojson
)

// maxPlans bounds the types that are stored: a proxy with dynamic descriptors may see any number.
const maxPlans = 1 << 12

var plans planCache

// planCache stores plans by descriptor.
type planCache struct {
	m sync.Map // of protoreflect.MessageDescriptor to *plan
	n atomic.Int32
}

// planOf returns the plan of md's messages.
func planOf(md protoreflect.MessageDescriptor) *plan {
	if p, ok := plans.m.Load(md); ok {
		return p.(*plan)
	}
	p := compile(md)
	if plans.n.Add(1) > maxPlans {
		plans.m.Clear()
		plans.n.Store(1)
	}
	plans.m.Store(md, p)
	return p
}

// compile makes the plan of md. Those of its fields' messages are made when they are first met.
func compile(md protoreflect.MessageDescriptor) *plan {
	fields := md.Fields()
	p := &plan{
		form:       formOf(md),
		fields:     make([]field, fields.Len()),
		byName:     make(map[string]*field),
		byNumber:   make(map[protowire.Number]*field),
		bits:       fields.Len() + md.Oneofs().Len(),
		inOrder:    true,
		extensible: md.ExtensionRanges().Len() > 0,
	}
	for i := range p.fields {
		f, fd := &p.fields[i], fields.Get(i)
		f.describe(fd)
		f.bit, f.oneof = i, -1
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
			f.oneof = fields.Len() + o.Index()
			p.inOrder = false // dynamicpb has those of oneofs last
		}
		p.inOrder = p.inOrder && (i == 0 || fd.Number() > p.fields[i-1].fd.Number())
		p.byNumber[fd.Number()] = f
		if n := int(fd.Number()); n < len(p.low) {
			p.low[n] = f
		}
		if !plain(fd.JSONName()) {
			p.form = foreign
		}
	}
	for i := range p.fields {
		f := &p.fields[i]
		p.call(f, f.fd.JSONName())
		p.call(f, f.fd.TextName())
		if p.byName[f.fd.JSONName()] != f {
			f.name = nil
		}
	}
	return p
}

// call makes name one of the names of f, unless it is another field's.
func (p *plan) call(f *field, name string) {
	fields := f.fd.ContainingMessage().Fields()
	fd := fields.ByJSONName(name)
	if fd == nil {
		fd = fields.ByTextName(name)
	}
	if fd == f.fd && !extension(name) {
		p.byName[name] = f
	}
}

// extension reports whether name is that of an extension.
func extension(name string) bool { return strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") }

// plain reports whether name is the same in JSON.
func plain(name string) bool { return utf8.ValidString(name) && special([]byte(name), 0) == len(name) }

// field returns the field of a number, nil without one.
func (p *plan) field(n protowire.Number) *field {
	if uint(n) < uint(len(p.low)) { // what a program sets as unknown fields may have a negative one
		return p.low[n]
	}
	return p.byNumber[n]
}

// formOf returns the form of md's messages.
func formOf(md protoreflect.MessageDescriptor) form {
	if m, ok := md.(interface{ IsMessageSet() bool }); ok && m.IsMessageSet() {
		return foreign
	}
	k, ok := known[md.FullName()]
	if !ok {
		return object
	}
	// A dynamic descriptor may have the name and other fields.
	fields := md.Fields()
	if fields.Len() != len(k.kinds) {
		return foreign
	}
	for i, kind := range k.kinds {
		if fd := fields.Get(i); int(fd.Number()) != i+1 || fd.Kind() != kind || fd.IsList() || fd.HasPresence() {
			return foreign
		}
	}
	return k.form
}

// known are the messages that are not objects in JSON, and their fields.
var known = map[protoreflect.FullName]struct {
	form  form
	kinds []protoreflect.Kind
}{
	"google.protobuf.Any":         {form: foreign},
	"google.protobuf.FieldMask":   {form: foreign},
	"google.protobuf.ListValue":   {form: foreign},
	"google.protobuf.Struct":      {form: foreign},
	"google.protobuf.Value":       {form: foreign},
	"google.protobuf.Timestamp":   {timestamp, []protoreflect.Kind{protoreflect.Int64Kind, protoreflect.Int32Kind}},
	"google.protobuf.Duration":    {duration, []protoreflect.Kind{protoreflect.Int64Kind, protoreflect.Int32Kind}},
	"google.protobuf.BoolValue":   {wrapper, []protoreflect.Kind{protoreflect.BoolKind}},
	"google.protobuf.Int32Value":  {wrapper, []protoreflect.Kind{protoreflect.Int32Kind}},
	"google.protobuf.Int64Value":  {wrapper, []protoreflect.Kind{protoreflect.Int64Kind}},
	"google.protobuf.UInt32Value": {wrapper, []protoreflect.Kind{protoreflect.Uint32Kind}},
	"google.protobuf.UInt64Value": {wrapper, []protoreflect.Kind{protoreflect.Uint64Kind}},
	"google.protobuf.FloatValue":  {wrapper, []protoreflect.Kind{protoreflect.FloatKind}},
	"google.protobuf.DoubleValue": {wrapper, []protoreflect.Kind{protoreflect.DoubleKind}},
	"google.protobuf.StringValue": {wrapper, []protoreflect.Kind{protoreflect.StringKind}},
	"google.protobuf.BytesValue":  {wrapper, []protoreflect.Kind{protoreflect.BytesKind}},
}
