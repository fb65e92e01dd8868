package message

import (
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// LongField is the length in bytes from which a bytes field has memory apart from its message: lent ones are
// views of received memory, others are received into separate memory. Shorter ones are copied, which costs
// less.
const LongField = 1 << 10

// splitter parses the encoding of a message of a known type, as it arrives or as a whole, and finds its long
// bytes fields. The parser gets the skeleton: the message with each of them empty. So presence, oneofs and the
// order of lists are the parser's, and the content is set afterwards.
type splitter struct {
	off     int  // bytes of the message that have been parsed
	apart   int  // of these, bytes of long fields that are not part of the skeleton
	skip    int  // following bytes that are skipped
	plain   bool // stop searching: the message must be parsed as one piece
	levels  []level
	seen    []count            // of all levels, the innermost's last
	groups  []protowire.Number // groups that have begun and not ended, in messages without a plan
	steps   []step             // the paths to views, all in one list
	at      []step             // the path to the current level
	views   []view
	lengths []length

	// Initial arrays of these lists, so that most messages allocate no others.
	levels0  [3]level
	seen0    [4]count
	steps0   [2]step
	at0      [2]step
	views0   [2]view
	lengths0 [4]length
}

// level is a message that contains the splitter's position.
type level struct {
	plan   *Plan
	end    int // offset in the whole message
	length int // index of its length in lengths; -1: the whole message
	seen   int // index of its first count in the splitter's seen
}

// count is how often a field of a level has come: its index in a list.
type count struct {
	number protowire.Number
	n      int
	view   int // the last view of a singular field; -1: none
}

// step leads from a message to a nested one.
type step struct {
	fd    protoreflect.FieldDescriptor
	index int // in a list; -1: the field is singular
}

// view is one long field.
type view struct {
	step
	mem        []byte // its content
	place      int    // offset in the skeleton, before prefixes are changed
	first, end int    // of steps
	dropped    bool   // another value of the field came later
}

// length is a length prefix in the skeleton that changes because views are left out.
type length struct {
	from, to int // where it is
	n        int // its value
	less     int // bytes by which the value decreases; for a view, all
	gap      int // bytes behind it that are left out
	view     bool
}

// begin starts a message of size bytes whose type has the given plan.
func (s *splitter) begin(plan *Plan, size int) {
	if plan == nil {
		s.plain, s.skip = true, size
		return
	}
	s.levels, s.seen, s.at = s.levels0[:0], s.seen0[:0], s.at0[:0]
	s.steps, s.views, s.lengths = s.steps0[:0], s.views0[:0], s.lengths0[:0]
	s.levels = append(s.levels, level{plan: plan, end: size, length: -1})
}

// look parses p, the next bytes of the message. It returns how many of them belong to the skeleton and, if long >
// 0, that a long field of that many bytes follows them; fewer than all without a long field means that it
// needs more bytes to continue.
func (s *splitter) look(p []byte) (n, long int) {
	for {
		if s.skip > 0 {
			k := min(s.skip, len(p)-n)
			n, s.off, s.skip = n+k, s.off+k, s.skip-k
			if s.skip > 0 {
				return n, 0
			}
		}
		for len(s.levels) > 0 && s.off == s.levels[len(s.levels)-1].end {
			if len(s.groups) > 0 {
				s.giveUp()
				break
			}
			s.endLevel()
		}
		if n == len(p) || s.plain {
			if s.skip > 0 {
				continue
			}
			return n, 0
		}
		k, long := s.token(p[n:])
		n, s.off = n+k, s.off+k
		if k == 0 && s.skip == 0 || long > 0 {
			return n, long
		}
	}
}

// giveUp has the message parsed as one piece: it is malformed, or has a singular message twice, whose parts
// would be merged.
func (s *splitter) giveUp() {
	s.plain = true
	s.skip = s.levels[0].end - s.off
	s.levels = s.levels[:0]
}

// token parses a field's tag, and its value or its length. It returns their length; 0: p does not contain all
// of them yet, or the splitter has given up.
func (s *splitter) token(p []byte) (n, long int) {
	l := &s.levels[len(s.levels)-1]
	left := l.end - s.off
	there := partly
	if len(p) >= left {
		there = entirely
	}
	p = p[:min(len(p), left)]
	number, typ, n := protowire.ConsumeTag(p)
	if n < 0 {
		return s.short(n, there), 0
	}
	switch typ {
	case protowire.VarintType:
		_, m := protowire.ConsumeVarint(p[n:])
		if m < 0 {
			return s.short(m, there), 0
		}
		return n + m, 0
	case protowire.Fixed32Type, protowire.Fixed64Type:
		s.skip = 4
		if typ == protowire.Fixed64Type {
			s.skip = 8
		}
	case protowire.StartGroupType:
		if len(s.groups) == maxGroups {
			s.giveUp()
			return 0, 0
		}
		s.groups = append(s.groups, number)
		return n, 0
	case protowire.EndGroupType:
		last := len(s.groups) - 1
		if last < 0 || s.groups[last] != number {
			s.giveUp()
			return 0, 0
		}
		s.groups = s.groups[:last]
		return n, 0
	case protowire.BytesType:
		size, m := protowire.ConsumeVarint(p[n:])
		if m < 0 {
			return s.short(m, there), 0
		}
		if size > uint64(left-n-m) {
			s.giveUp()
			return 0, 0
		}
		return s.delimited(l, number, n, n+m, int(size))
	default:
		s.giveUp()
		return 0, 0
	}
	if s.skip > left-n {
		s.giveUp()
		return 0, 0
	}
	return n, 0
}

// extent is how much of a level's bytes has arrived.
type extent uint8

const (
	partly extent = iota
	entirely
)

// maxGroups bounds the nesting of groups.
const maxGroups = 32

// short is token's result for input that cannot be parsed: more bytes are needed or, when the level is
// complete or the bytes are wrong, the message is malformed.
func (s *splitter) short(code int, there extent) int {
	if there == entirely || protowire.ParseError(code) != io.ErrUnexpectedEOF {
		s.giveUp()
	}
	return 0
}

// delimited handles the tag and length of a field of size bytes: n bytes, of which the length begins at tag.
func (s *splitter) delimited(l *level, number protowire.Number, tag, n, size int) (took, long int) {
	f := (*planned)(nil)
	if len(s.groups) == 0 {
		f = l.plan.field(number)
	}
	if f == nil {
		s.skip = size
		return n, 0
	}
	c := s.count(l, number)
	st := step{f.fd, -1}
	if f.list {
		st.index = c.n
	}
	c.n++
	place := s.off - s.apart
	prefix := length{from: place + tag, to: place + n, n: size}
	switch {
	case f.inner != nil && !f.list && c.n > 1:
		s.giveUp()
		return 0, 0
	case f.inner != nil && size >= LongField && len(s.levels) <= maxDepth:
		s.lengths = append(s.lengths, prefix)
		s.at = append(s.at, st)
		s.levels = append(s.levels, level{plan: f.inner, end: s.off + n + size, length: len(s.lengths) - 1, seen: len(s.seen)})
	case f.inner == nil && size >= LongField:
		if c.view >= 0 && !f.list {
			s.views[c.view].dropped = true
		}
		c.view = len(s.views)
		prefix.less, prefix.view = size, true
		s.lengths = append(s.lengths, prefix)
		first := len(s.steps)
		s.steps = append(s.steps, s.at...)
		s.views = append(s.views, view{step: st, place: place + n, first: first, end: len(s.steps)})
		return n, size
	case f.inner == nil && !f.list && c.view >= 0: // a later, short value of the field
		s.views[c.view].dropped = true
		c.view = -1
		s.skip = size
	default:
		s.skip = size
	}
	return n, 0
}

// count returns how often a field of the innermost level l has come, until the next call.
func (s *splitter) count(l *level, number protowire.Number) *count {
	for i := l.seen; i < len(s.seen); i++ {
		if s.seen[i].number == number {
			return &s.seen[i]
		}
	}
	s.seen = append(s.seen, count{number, 0, -1})
	return &s.seen[len(s.seen)-1]
}

// endLevel ends the innermost message.
func (s *splitter) endLevel() {
	last := len(s.levels) - 1
	mine := s.levels[last].length
	s.levels, s.seen = s.levels[:last], s.seen[:s.levels[last].seen]
	if mine < 0 {
		return
	}
	s.at = s.at[:len(s.at)-1]
	for _, l := range s.lengths[mine+1:] {
		s.lengths[mine].less += l.shrinks()
		if l.view {
			s.lengths[mine].less += l.less
		}
	}
	if s.lengths[mine].less == 0 {
		s.lengths = slices.Delete(s.lengths, mine, mine+1)
	}
}

// shrinks is by how many bytes the prefix itself becomes shorter.
func (l *length) shrinks() int {
	return l.to - l.from - protowire.SizeVarint(uint64(l.n-l.less))
}

// received reports that the content of the last view is in mem and not part of the skeleton.
func (s *splitter) received(mem []byte) {
	s.views[len(s.views)-1].mem = mem
	s.off += len(mem)
	s.apart += len(mem)
}

// left reports that the content of the last view, of n bytes, is part of the skeleton, and is left out when that
// is parsed.
func (s *splitter) left(n int) {
	s.lengths[len(s.lengths)-1].gap = n
	s.off += n
}

// appendSkeleton appends the message with each view empty; data is the skeleton as received. dst may be the start of
// data.
func (s *splitter) appendSkeleton(dst, data []byte) []byte {
	at := 0
	for _, l := range s.lengths {
		dst = append(dst, data[at:l.from]...)
		dst = protowire.AppendVarint(dst, uint64(l.n-l.less))
		at = l.to + l.gap
	}
	return append(dst, data[at:]...)
}

// skeletonLen is the length of what appendSkeleton appends.
func (s *splitter) skeletonLen(data []byte) int {
	n := len(data)
	for i := range s.lengths {
		n -= s.lengths[i].shrinks() + s.lengths[i].gap
	}
	return n
}

// unmarshal fills v from parsed, the skeleton, and the views.
func (s *splitter) unmarshal(parsed []byte, v proto.Message) error {
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(parsed, v); err != nil {
		return err
	}
	r := v.ProtoReflect()
	for i := range s.views {
		if !s.views[i].dropped {
			s.set(r, &s.views[i])
		}
	}
	return proto.CheckInitialized(v)
}

// set makes a field of r the view's content.
func (s *splitter) set(r protoreflect.Message, v *view) {
	for _, st := range s.steps[v.first:v.end] {
		if !r.Has(st.fd) {
			return // another member of its oneof came later
		}
		if st.index >= 0 {
			r = r.Mutable(st.fd).List().Get(st.index).Message()
		} else {
			r = r.Mutable(st.fd).Message()
		}
	}
	value := protoreflect.ValueOfBytes(v.mem)
	switch {
	case v.index >= 0:
		r.Mutable(v.fd).List().Set(v.index, value)
	case v.fd.ContainingOneof() == nil || r.Has(v.fd):
		r.Set(v.fd, value)
	}
}
