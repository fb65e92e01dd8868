package message

import (
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/kept"
	"github.com/tarn-go/tarn/rpc/internal/viewpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Scope says what is lent of a message.
type Scope uint8

const (
	LongBytes Scope = iota // bytes fields of at least LongField bytes
	Views                  // all bytes fields and strings
)

// Lease holds the memory of lent messages until it is released. The zero Lease is ready, and lends long bytes fields. It is not safe
// for concurrent use.
type Lease struct {
	Scope  Scope
	Finder *kept.Finder // of fields that the program keeps; nil: none are looked for

	held    []Message
	one     [1]Message // the initial array of held
	own     []Lent
	samples []*kept.Sample
}

// Lent is a message that decodes itself from memory that is lent to it. Its methods are called by one goroutine at a time.
type Lent interface {
	proto.Message
	// UnmarshalLent replaces the message's content by what b says. b is valid, and does not change, until ReleaseLent is called, which is after
	// an error, too. Where messages are not lent, and in a request that CheckLent looks at, b is the garbage
	// collector's, and ReleaseLent is not called.
	UnmarshalLent(b []byte) error
	// ReleaseLent ends the message's use of b.
	ReleaseLent()
}

// Release frees the memory: lent fields must not be used any more (rule 3).
func (l *Lease) Release() {
	for i := range l.own {
		l.own[i].ReleaseLent()
	}
	clear(l.own)
	l.own = l.own[:0]
	for _, s := range l.samples {
		s.Released()
	}
	l.samples = nil
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

// Decode fills v from m by codec. It takes ownership of m, which is freed before it returns, or with the lease if v is a protobuf message with
// long bytes fields.
func (l *Lease) Decode(pool *tarn.Pool, codec Codec, m Message, v any) error {
	if _, ok := codec.(Proto); ok {
		switch v := v.(type) {
		case Lent:
			return l.lend(m, v)
		case proto.Message:
			return l.Unmarshal(pool, m, v)
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
	if l.Scope == Views {
		if ok, err := l.views(b, v); ok {
			l.hold(m)
			return err
		}
	}
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
	l.hold(m)
	return err
}

// hold takes ownership of m, and keeps it until Release.
func (l *Lease) hold(m Message) {
	if l.held == nil {
		l.held = l.one[:0]
	}
	l.held = append(l.held, m)
}

// lend takes ownership of m, from which it has v decode itself.
func (l *Lease) lend(m Message, v Lent) error {
	b := m.Flatten()
	if s := l.sample(); s != nil {
		defer m.Free()
		return v.UnmarshalLent(s.Copy(string(v.ProtoReflect().Descriptor().FullName()), b))
	}
	l.own = append(l.own, v)
	l.hold(m)
	return v.UnmarshalLent(b)
}

// views fills v with views of b. It returns false if v's type does not permit it.
func (l *Lease) views(b []byte, v proto.Message) (ok bool, err error) {
	s := l.sample()
	if s != nil {
		return viewpb.Unmarshal(b, v, func(fd protoreflect.FieldDescriptor, content []byte) []byte {
			return s.Copy(string(fd.FullName()), content)
		}), nil
	}
	if vt, ok := v.(vtUnsafe); ok {
		proto.Reset(v)
		return true, vt.UnmarshalVTUnsafe(b)
	}
	return viewpb.Unmarshal(b, v, nil), nil
}

// sample is what finds the fields of the next message that are kept; nil: they are not looked for.
func (l *Lease) sample() *kept.Sample {
	s := l.Finder.Sample()
	if s != nil {
		l.samples = append(l.samples, s)
	}
	return s
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
