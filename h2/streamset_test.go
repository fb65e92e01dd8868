package h2

import (
	"math/rand/v2"
	"testing"
)

// TestStreamSet: a streamSet holds what a map would, whatever numbers are open at a time, also when several share a slot.
func TestStreamSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for _, numbers := range []uint32{streamSlots / 2, 2 * streamSlots, 16 * streamSlots} {
		var none *streamSet
		if none.len() != 0 || none.get(1) != nil {
			t.Error("a nil streamSet is not empty")
		}
		for range none.all() {
			t.Error("a nil streamSet has a stream")
		}
		set, want := newStreamSet(), map[uint32]*Stream{}
		for range 20 * streamSlots {
			id := 2*rnd.Uint32N(numbers) + 1
			if s := want[id]; s != nil {
				set.remove(s)
				delete(want, id)
			} else {
				s = &Stream{id: id}
				set.add(s)
				want[id] = s
			}
			id = 2*rnd.Uint32N(numbers) + 1
			if got := set.get(id); got != want[id] || set.len() != len(want) {
				t.Fatalf("stream %d is %p, not %p, among %d, not %d", id, got, want[id], set.len(), len(want))
			}
		}
		n := 0
		for s := range set.all() {
			if n++; want[s.id] != s {
				t.Errorf("all yields stream %d, which is not open", s.id)
			}
		}
		if n != len(want) {
			t.Errorf("all yields %d streams of %d", n, len(want))
		}
	}
}

// TestStreamSetGrows: a connection with one stream holds room for few, and streams that were opened one after another are found without a
// map.
func TestStreamSetGrows(t *testing.T) {
	set := newStreamSet()
	for id := uint32(1); id < 2*streamSlots; id += 2 {
		set.add(&Stream{id: id})
		if id == 1 && len(set.slots) != firstStreamSlots {
			t.Errorf("%d slots for one stream", len(set.slots))
		}
	}
	if set.more != nil || len(set.slots) != streamSlots {
		t.Errorf("%d slots, and %d streams in the map", len(set.slots), len(set.more))
	}
}
