package h2

import "iter"

// streamSet holds the open streams of a connection by number. The streams of one side have consecutive odd numbers, so that as many of
// them as there are slots, opened one after another, have a slot each: entering and finding one is an access to an array. There are few
// slots until that is not enough, because a connection may wait for a single response for hours, and at most streamSlots. Then a stream
// whose slot is taken is in the map. A nil streamSet is empty. Guarded by Conn.mu.
type streamSet struct {
	slots []*Stream          // their number is a power of two
	more  map[uint32]*Stream // nil: none
	n     int
}

func newStreamSet() *streamSet { return &streamSet{slots: make([]*Stream, firstStreamSlots)} }

// slot returns the place in slots of stream id.
func (t *streamSet) slot(id uint32) **Stream { return &t.slots[id/2&uint32(len(t.slots)-1)] }

// get returns stream id; nil: it is not open.
func (t *streamSet) get(id uint32) *Stream {
	if t == nil {
		return nil
	}
	if s := *t.slot(id); s != nil && s.id == id {
		return s
	}
	return t.more[id]
}

// add enters s, whose number is not in t.
func (t *streamSet) add(s *Stream) {
	t.n++
	p := t.slot(s.id)
	for ; *p != nil && len(t.slots) < streamSlots; p = t.slot(s.id) {
		t.grow()
	}
	if *p == nil {
		*p = s
		return
	}
	if t.more == nil {
		t.more = make(map[uint32]*Stream)
	}
	t.more[s.id] = s
}

// grow doubles the slots. Streams that had a slot each have one each again.
func (t *streamSet) grow() {
	old := t.slots
	t.slots = make([]*Stream, 2*len(old))
	for _, s := range old {
		if s != nil {
			*t.slot(s.id) = s
		}
	}
}

// remove drops s, which is in t.
func (t *streamSet) remove(s *Stream) {
	t.n--
	if p := t.slot(s.id); *p == s {
		*p = nil
		return
	}
	delete(t.more, s.id)
}

func (t *streamSet) len() int {
	if t == nil {
		return 0
	}
	return t.n
}

// all ranges over the streams in no order. Those that it has come to may be removed meanwhile.
func (t *streamSet) all() iter.Seq[*Stream] {
	return func(yield func(*Stream) bool) {
		if t.len() == 0 {
			return
		}
		for _, s := range t.slots {
			if s != nil && !yield(s) {
				return
			}
		}
		for _, s := range t.more {
			if !yield(s) {
				return
			}
		}
	}
}
