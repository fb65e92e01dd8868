package message

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Plan says where messages of one type may have bytes fields. It is made once per type, from its descriptor.
// Fields of maps, groups and extensions are not included.
type Plan struct {
	md     protoreflect.MessageDescriptor
	fields []planned
}

// planned is a bytes field, or a field of messages that contain one.
type planned struct {
	number protowire.Number
	fd     protoreflect.FieldDescriptor
	inner  *Plan // nil: a bytes field
	list   bool
}

const (
	// maxDepth is how many levels of nested messages are searched.
	maxDepth = 8
	// maxPlans bounds the types that are stored: a proxy with dynamic descriptors may see any number.
	maxPlans = 1 << 12
)

var plans planCache

// planCache stores plans by descriptor.
type planCache struct {
	m sync.Map // of protoreflect.MessageDescriptor to *Plan
	n atomic.Int32
}

// planOf returns the plan of md's messages; nil: they contain no bytes fields.
func planOf(md protoreflect.MessageDescriptor) *Plan {
	if p, ok := plans.m.Load(md); ok {
		return p.(*Plan)
	}
	p := compile(md, make(map[protoreflect.MessageDescriptor]*Plan))
	if plans.n.Add(1) > maxPlans {
		plans.m.Clear()
		plans.n.Store(1)
	}
	plans.m.Store(md, p)
	return p
}

// compile makes the plan of md. made are the plans that are being made: types may contain themselves.
func compile(md protoreflect.MessageDescriptor, made map[protoreflect.MessageDescriptor]*Plan) *Plan {
	if p, ok := made[md]; ok {
		return p
	}
	if !hasBytes(md, make(map[protoreflect.MessageDescriptor]bool)) {
		made[md] = nil
		return nil
	}
	p := &Plan{md: md}
	made[md] = p
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.IsMap() {
			continue
		}
		f := planned{number: fd.Number(), fd: fd, list: fd.IsList()}
		switch fd.Kind() {
		case protoreflect.BytesKind:
		case protoreflect.MessageKind:
			if f.inner = compile(fd.Message(), made); f.inner == nil {
				continue
			}
		default:
			continue
		}
		p.fields = append(p.fields, f)
	}
	return p
}

// hasBytes reports whether messages of md may contain bytes fields.
func hasBytes(md protoreflect.MessageDescriptor, seen map[protoreflect.MessageDescriptor]bool) bool {
	if seen[md] {
		return false
	}
	seen[md] = true
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		switch {
		case fd.IsMap():
		case fd.Kind() == protoreflect.BytesKind:
			return true
		case fd.Kind() == protoreflect.MessageKind && hasBytes(fd.Message(), seen):
			return true
		}
	}
	return false
}

// field returns the planned field; nil: there is none.
func (p *Plan) field(number protowire.Number) *planned {
	for i := range p.fields {
		if p.fields[i].number == number {
			return &p.fields[i]
		}
	}
	return nil
}

// Learned is the plan of a method's messages, learned from the first that was decoded.
// The zero Learned is ready and safe for concurrent use.
type Learned struct{ p atomic.Pointer[Plan] }

// without is the plan of messages without bytes fields.
var without = new(Plan)

// Plan returns the plan; nil while it is not known, or messages have no bytes fields.
func (l *Learned) Plan() *Plan {
	if l == nil {
		return nil
	}
	if p := l.p.Load(); p != without {
		return p
	}
	return nil
}

// From learns from v, into which a message was decoded.
func (l *Learned) From(v any) {
	if l == nil || l.p.Load() != nil {
		return
	}
	p := without
	if m, ok := v.(proto.Message); ok {
		if made := planOf(m.ProtoReflect().Descriptor()); made != nil {
			p = made
		}
	}
	l.p.Store(p)
}
