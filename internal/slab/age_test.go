package slab

import (
	"runtime"
	"testing"
)

// A slab that the sync.Pool has dropped before it could be shelved is found by its finalizer and can be
// handed out again.
func TestDroppedSlabsAreRecovered(t *testing.T) {
	d := testDepot(t, Config{Classes: []int{64}})
	s, key := d.Get(1)
	s.Free(key)
	for d.classes[64].idle.Get() != nil { // as the sync.Pool does at its second collection
	}
	s = nil
	recovered := func() bool { return d.classes[64].shelved() == 1 }
	for range 1000 {
		if runtime.GC(); recovered() {
			break
		}
		runtime.Gosched()
	}
	if !recovered() {
		t.Fatal("not recovered after 1000 collections")
	}
	st := d.Stats()
	if st.Gets != 1 || st.Frees != 1 || st.Dropped != 0 || st.Idle != 64 {
		t.Errorf("books: %+v", st)
	}
	s, key = d.Get(1)
	s.Free(key)
	if st := d.Stats(); st.Misses != 1 || st.Hits != 1 {
		t.Errorf("books: %+v", st)
	}
}
