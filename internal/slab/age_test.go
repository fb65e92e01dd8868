package slab

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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

// TestSlabsApartAreTrimmed: the timer also gives up large slabs that single processors keep to themselves, in an idle
// process. On a busy machine a processor may be missed, and a collection puts slabs where only the next one finds them, so
// that not every round has to succeed. Two thirds to nearly all do, and a fifth when only the timer's own processor is
// asked.
func TestSlabsApartAreTrimmed(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops items of every sync.Pool at random")
	}
	const rounds = 200
	trimmed := 0
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			d := testDepot(t, Config{Classes: []int{apartFrom}, Retain: 1 << 30, Collect: CollectNever})
			onProcessors(func() {
				s, key := d.Get(1)
				s.Free(key)
			})
			for range 3 { // in the first period there was use, and a collection may make another one busy
				<-time.After(trimPeriod)
				synctest.Wait()
			}
			if d.Stats().Idle == 0 {
				trimmed++
			}
			<-time.After(time.Hour) // the timer ends
		})
	}
	if trimmed < rounds/2 {
		t.Errorf("all slabs were given up in %d rounds of %d", trimmed, rounds)
	}
}

func TestOnProcessors(t *testing.T) {
	var calls atomic.Int32
	onProcessors(func() { calls.Add(1) })
	if n := runtime.GOMAXPROCS(0); calls.Load() != int32(n) {
		t.Errorf("%d calls on %d processors", calls.Load(), n)
	}
}
