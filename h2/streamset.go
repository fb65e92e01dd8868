package h2

import "iter"

// streamSet holds the open streams of a connection by number. The streams of one side have consecutive odd numbers, so that
// streamSlots of them, opened one after another, have a slot each: entering and finding one is an access to an array. A stream
// whose slot is taken is in the map. A nil streamSet is empty. Guarded by Conn.mu.
type streamSet struct {
	slots [streamSlots]*Stream
	more  map[uint32]*Stream // nil: none
	n     int
}

// slot returns the place in slots of stream id.
func (t *streamSet) slot(id uint32) **Stream { return &t.slots[id/2%streamSlots] }

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
	if p := t.slot(s.id); *p == nil {
		*p = s
		return
	}
	if t.more == nil {
		t.more = make(map[uint32]*Stream)
	}
	t.more[s.id] = s
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
		for _, s := range &t.slots {
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
