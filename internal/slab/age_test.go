package slab

import (
	"runtime"
	"sync"
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

// collect gives up an idle slab that no Get and no shelving reaches. That the memory is returned is not tested here.
func TestCollectGivesUpSlabsApart(t *testing.T) {
	d := testDepot(t, Config{Classes: []int{apartFrom}, Retain: 1 << 30})
	d.trimming.Store(true) // so that no timer is started: the test does what it does
	c := d.classes[apartFrom]
	s, key := d.Get(1)
	s.Free(key)
	for c.idle.Get() != nil { // no Get and no shelving reaches it, as if another processor kept it to itself
	}
	c.watch()
	if !c.hasApart() {
		t.Fatal("the slab is not apart")
	}
	runtime.KeepAlive(s)
	d.collect([]*class{c})
	if st := d.Stats(); st.Idle != 0 || st.Gets != 1 || st.Frees != 1 || st.Dropped != 1 || c.leaked.Load() != 0 {
		t.Errorf("books: %+v", st)
	}
	if c.hasApart() || d.emptying.Load() {
		t.Error("slabs are still apart, or still given up")
	}
}

// The timer of an idle process leaves no large slab, whichever processors keep one.
func TestIdleProcessKeepsNoLargeSlab(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := testDepot(t, Config{Classes: []int{1 << 20}, Retain: 1 << 30})
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				s, key := d.Get(1)
				runtime.Gosched()
				s.Free(key)
			})
		}
		wg.Wait()
		const periods = 12 // collections of other tests' pools may make some of them busy
		for i := range periods {
			if i%4 == 0 {
				garbage := make([]byte, 16<<20) // makes a collection worth its time
				garbage[0] = 1
			}
			<-time.After(trimPeriod)
			synctest.Wait()
			if d.Stats().Idle == 0 {
				break
			}
		}
		if idle := d.Stats().Idle; idle != 0 {
			t.Errorf("%d bytes are idle after %d periods", idle, periods)
		}
		<-time.After(time.Hour) // the timer ends
	})
}
