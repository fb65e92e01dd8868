package message

import (
	"slices"
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// keepFrom is the length in bytes from which keeping a message pays.
	keepFrom = 128 << 10
	// maxFields is how many fields are looked at in search of a large one.
	maxFields = 32
	// maxDepth is how deep in other messages it may lie.
	maxDepth = 8
)

// Habit says whether the large messages of one kind, a method's requests say, are
// worth keeping: then they are received in memory that the decoder may keep,
// which spares a copy and as much memory. It follows what the last one was like.
// The zero Habit is ready and safe for concurrent use.
type Habit struct{ keep atomic.Bool }

func (h *Habit) keeps() bool { return h != nil && h.keep.Load() }

// collected makes buffers of memory that belongs to the garbage collector.
type collected struct{ pool *tarn.Pool }

func (c collected) Get(n int) tarn.Buffer { return c.pool.Wrap(make([]byte, n), nil) }

// unmarshalLarge is proto.Unmarshal for a message with a habit. When a single
// bytes field is nearly all of it, as in messages that carry a piece of a file,
// and the memory may be kept, that field gets its part of it instead of a copy.
// Everything else is copied, as Unmarshal does, so that no small field holds on
// to a large buffer.
func unmarshalLarge(m *Message, v proto.Message) error {
	b := m.Flatten()
	x := split{total: len(b), fields: maxFields}
	r := v.ProtoReflect()
	rest, ok := x.cut(b, r.Descriptor())
	if m.Habit.keep.Load() != ok {
		m.Habit.keep.Store(ok)
	}
	if !ok || !m.Kept {
		return proto.Unmarshal(b, v)
	}
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(rest, v); err != nil {
		return err
	}
	last := len(x.path) - 1
	for _, fd := range x.path[:last] {
		r = r.Mutable(fd).Message()
	}
	r.Set(x.path[last], protoreflect.ValueOfBytes(x.value))
	return proto.CheckInitialized(v)
}

// split is a message without its large field.
type split struct {
	total  int                            // length of the whole message
	fields int                            // how many more are looked at
	path   []protoreflect.FieldDescriptor // the messages that lead to the field, and the field
	value  []byte                         // its content, in place
}

// cut returns b, the encoding of a message of type md, without the content of the
// large field; false if there is none, or it takes more than a glance to see what
// would become of it.
func (x *split) cut(b []byte, md protoreflect.MessageDescriptor) (rest []byte, ok bool) {
	fd, f, ok := x.largest(b, md)
	if !ok || len(x.path) == maxDepth {
		return nil, false
	}
	x.path = append(x.path, fd)
	switch fd.Kind() {
	case protoreflect.BytesKind:
		x.value = b[f.start:f.end:f.end]
		return slices.Concat(b[:f.tag], b[f.end:]), true
	case protoreflect.MessageKind:
		inner, ok := x.cut(b[f.start:f.end], fd.Message())
		rest = slices.Clone(b[:f.tag])
		rest = protowire.AppendTag(rest, fd.Number(), protowire.BytesType)
		rest = protowire.AppendBytes(rest, inner)
		return append(rest, b[f.end:]...), ok
	}
	return nil, false
}

// extent is where a field lies: tag, content and end.
type extent struct{ tag, start, end int }

// largest finds a singular field that is seven eighths of the whole message, if
// nothing else in b has a say in its value.
func (x *split) largest(b []byte, md protoreflect.MessageDescriptor) (fd protoreflect.FieldDescriptor, f extent, ok bool) {
	var others [maxFields]protowire.Number
	var number protowire.Number
	n := 0
	for at := 0; at < len(b); {
		num, typ, tagLen := protowire.ConsumeTag(b[at:])
		if tagLen < 0 || n == x.fields {
			return nil, f, false
		}
		size := protowire.ConsumeFieldValue(num, typ, b[at+tagLen:])
		if size < 0 {
			return nil, f, false
		}
		end := at + tagLen + size
		if typ == protowire.BytesType && size >= x.total-x.total/8 {
			v, _ := protowire.ConsumeBytes(b[at+tagLen : end])
			number, f = num, extent{at, end - len(v), end}
		} else {
			others[n] = num
			n++
		}
		at = end
	}
	x.fields -= n
	fields := md.Fields()
	fd = fields.ByNumber(number) // 0 is no field's number
	if fd == nil || fd.IsList() || fd.IsMap() {
		return nil, f, false
	}
	oneof := fd.ContainingOneof()
	for _, num := range others[:n] {
		other := fields.ByNumber(num)
		if num == number || oneof != nil && other != nil && other.ContainingOneof() == oneof {
			return nil, f, false
		}
	}
	return fd, f, true
}
