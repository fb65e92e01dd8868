package message

import (
	"sync"

	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/proto"
)

// Lease holds the memory of lent messages until it is released. The zero Lease is ready. It is not safe
// for concurrent use.
type Lease struct {
	held []Message
	one  [1]Message // the initial array of held
}

// Release frees the memory: lent fields must not be used any more (rule 3).
func (l *Lease) Release() {
	for i := range l.held {
		l.held[i].Free()
	}
	clear(l.held)
	l.held = l.held[:0]
}

// ref returns a lease of the same memory, which is held until both are released.
func (l *Lease) ref() Lease {
	r := Lease{held: make([]Message, len(l.held))}
	for i := range l.held {
		r.held[i] = l.held[i].Ref()
	}
	return r
}

// Size is how many bytes of messages are held.
func (l *Lease) Size() int {
	n := 0
	for i := range l.held {
		n += l.held[i].Len()
	}
	return n
}

// Decode fills v from m by codec, and frees m: now, or with the lease when v is a protobuf message with long
// bytes fields.
func (l *Lease) Decode(pool *tarn.Pool, codec Codec, m Message, v any) error {
	if _, ok := codec.(Proto); ok {
		if pm, ok := v.(proto.Message); ok {
			return l.Unmarshal(pool, m, pm)
		}
	}
	other := m // a separate variable, as it escapes to the heap
	defer other.Free()
	return codec.Unmarshal(pool, &other, v)
}

// Unmarshal fills v from m, of which it takes ownership. Bytes fields of at least LongField bytes, nested and
// repeated ones included, are views of m's memory, valid until Release; everything else is separate memory.
// Fields of maps, groups and extensions are copied. pool is for the part of the message that is parsed.
func (l *Lease) Unmarshal(pool *tarn.Pool, m Message, v proto.Message) error {
	b := m.Flatten()
	if len(b) < LongField || !copies(v) {
		defer m.Free()
		return Proto{}.Unmarshal(pool, &m, v)
	}
	s := splitters.Get().(*splitter)
	defer s.recycle()
	if !s.scan(b, planOf(v.ProtoReflect().Descriptor())) {
		defer m.Free()
		return Proto{}.Unmarshal(pool, &m, v)
	}
	skeleton := pool.Get(s.skeletonLen(b))
	err := s.unmarshal(s.appendSkeleton(skeleton.Bytes()[:0], b), v)
	skeleton.Free()
	if l.held == nil {
		l.held = l.one[:0]
	}
	l.held = append(l.held, m)
	return err
}

// splitters are reused: one takes about a kilobyte.
var splitters = sync.Pool{New: func() any { return new(splitter) }}

// recycle makes s available for reuse; the caller holds the last reference.
func (s *splitter) recycle() {
	*s = splitter{}
	splitters.Put(s)
}

// scan parses all of a message and makes views of its long fields. False: there are none, or the message must
// be parsed as one piece.
func (s *splitter) scan(b []byte, plan *Plan) bool {
	if plan == nil {
		return false
	}
	s.begin(plan, len(b))
	for at := 0; at < len(b); {
		n, long := s.look(b[at:])
		at += n
		if s.plain || n == 0 && long == 0 {
			return false
		}
		if long > 0 {
			s.views[len(s.views)-1].mem = b[at : at+long : at+long]
			s.left(long)
			at += long
		}
	}
	if len(s.views) > 0 {
		s.look(nil) // ends the levels that end here
	}
	return len(s.views) > 0 && !s.plain
}
