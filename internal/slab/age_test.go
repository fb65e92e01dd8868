package slab

import (
	"runtime"
	"runtime/debug"
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
	setApart(t, c, 1)
	d.collect([]*class{c})
	if st := d.Stats(); st.Idle != 0 || st.Gets != 1 || st.Frees != 1 || st.Dropped != 1 || c.leaked.Load() != 0 {
		t.Errorf("books: %+v", st)
	}
	if c.hasApart() {
		t.Error("slabs are still apart")
	}
}

// setApart makes n slabs of a class that no Get and no shelving reaches, as if other processors kept them to themselves.
func setApart(t *testing.T, c *class, n int) {
	t.Helper()
	var slabs []*Slab
	var keys []Key
	for range n {
		s, key := c.depot.Get(c.size)
		slabs, keys = append(slabs, s), append(keys, key)
	}
	for i, s := range slabs {
		s.Free(keys[i])
	}
	for c.idle.Get() != nil {
	}
	c.watch()
	if !c.hasApart() {
		t.Fatal("no slab is apart")
	}
	runtime.KeepAlive(slabs)
}

// collectByHand has no garbage collection run during the test but those that the test calls for.
func collectByHand(t *testing.T) {
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// runFinalizers lets finalizers run until done returns true, and reports whether it did.
func runFinalizers(done func() bool) bool {
	const most = 1 << 20
	for range most {
		if done() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// The timer of an idle process empties the classes that were not used for a period. One that is used keeps its slabs.
func TestClassInUseKeepsItsSlabs(t *testing.T) {
	collectByHand(t)
	synctest.Test(t, func(t *testing.T) {
		d := testDepot(t, Config{Classes: []int{apartFrom, 2 * apartFrom}, Retain: 1 << 30})
		used, unused := d.classes[apartFrom], d.classes[2*apartFrom]
		setApart(t, used, 4)
		setApart(t, unused, 4)
		garbage := make([]byte, 16<<20) // makes a collection worth its time
		garbage[0] = 1
		<-time.After(trimPeriod) // both classes have been used since the start
		synctest.Wait()
		if b, _, idle := unused.count(); idle != 4 {
			t.Fatalf("%d slabs idle after the first period: %+v", idle, b)
		}
		s, key := d.Get(used.size)
		s.Free(key)
		cycle := d.Cycle()
		<-time.After(trimPeriod)
		synctest.Wait()
		if !runFinalizers(func() bool { return d.Cycle() > cycle }) {
			t.Fatal("no collection: the process is not idle")
		}
		if b, _, idle := unused.count(); idle != 0 || unused.dropped.Load() != 4 {
			t.Errorf("the unused class has %d slabs idle, %d dropped: %+v", idle, unused.dropped.Load(), b)
		}
		if !runFinalizers(func() bool { _, _, idle := used.count(); return idle == 5 }) {
			b, _, idle := used.count()
			t.Errorf("the class in use has %d slabs idle, %d dropped: %+v", idle, used.dropped.Load(), b)
		}
		<-time.After(time.Hour) // the timer ends
	})
}

// collect gives up what the classes that it empties keep apart, and puts on the shelf what others do.
func TestCollectEmptiesItsClassesOnly(t *testing.T) {
	collectByHand(t)
	d := testDepot(t, Config{Classes: []int{apartFrom, 2 * apartFrom}, Retain: 1 << 30})
	d.trimming.Store(true)
	used, unused := d.classes[apartFrom], d.classes[2*apartFrom]
	setApart(t, used, 4)
	setApart(t, unused, 4)
	d.collect([]*class{unused})
	if !runFinalizers(func() bool { return used.shelved() == 4 }) || used.dropped.Load() != 0 {
		t.Errorf("%d slabs on the shelf of the class in use, %d dropped", used.shelved(), used.dropped.Load())
	}
	if unused.dropped.Load() != 4 {
		t.Errorf("%d slabs dropped of the class that was emptied", unused.dropped.Load())
	}
}

// The collections of an idle process are none of those after which a slab leaves the shelf.
func TestCollectAgesNoShelf(t *testing.T) {
	collectByHand(t)
	d := testDepot(t, Config{Classes: []int{apartFrom, 2 * apartFrom}, Retain: 1 << 30})
	d.trimming.Store(true)
	used, unused := d.classes[apartFrom], d.classes[2*apartFrom]
	setApart(t, unused, 1)
	const slabs = 32 // the race detector drops some of every sync.Pool at random
	var free []func()
	for range slabs {
		s, key := d.Get(used.size)
		free = append(free, func() { s.Free(key) })
	}
	for _, f := range free {
		f()
	}
	used.shelve(d.Cycle(), 1)
	shelved := used.shelved()
	if shelved == 0 {
		t.Fatal("nothing is on the shelf")
	}
	cycle := d.Cycle()
	d.collect([]*class{unused})
	runFinalizers(func() bool { return d.Cycle() == cycle+maxIdleCycles }) // fewer if finalizers began late
	if n := used.shelved(); n < shelved {
		t.Errorf("%d slabs of %d are still on the shelf", n, shelved)
	}
}

// All slabs apart are given up when collect returns, the memory of none waits for a later collection.
func TestCollectWaitsForFinalizers(t *testing.T) {
	collectByHand(t)
	d := testDepot(t, Config{Classes: []int{apartFrom}, Retain: 1 << 30})
	d.trimming.Store(true)
	c := d.classes[apartFrom]
	const slabs = 512
	for range 4 {
		before := c.dropped.Load()
		setApart(t, c, slabs)
		d.collect([]*class{c})
		if n := c.dropped.Load() - before; n != slabs {
			t.Fatalf("%d slabs of %d were given up", n, slabs)
		}
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

// A slab that a collection has found unreachable is waited for until its finalizer has run.
func TestAwaitsFinalizers(t *testing.T) {
	collectByHand(t)
	d := testDepot(t, Config{Classes: []int{apartFrom}, Retain: 1 << 30})
	d.trimming.Store(true)
	c := d.classes[apartFrom]
	running, release := make(chan struct{}), make(chan struct{})
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(running); <-release }) // blocks all other finalizers
	runtime.GC()
	<-running
	setApart(t, c, 4)
	runtime.GC()
	if !c.awaitsFinalizers() {
		t.Error("finalizers that cannot run are not awaited")
	}
	close(release)
	awaitFinalizers(func() bool { return !anyAwaits([]*class{c}) })
	if c.awaitsFinalizers() || c.shelved() != 4 {
		t.Errorf("%d slabs on the shelf, want 4", c.shelved())
	}
}

// A process that was idle but for its slabs in use has collected already. It collects again when the pool has given these
// up, though the heap did not grow.
func TestIdleProcessCollectsWhatThePoolGaveUp(t *testing.T) {
	collectByHand(t)
	synctest.Test(t, func(t *testing.T) {
		const size, slabs = apartFrom / 2, 512
		d := testDepot(t, Config{Classes: []int{size}, Retain: 1 << 30})
		var free []func()
		for range slabs {
			s, key := d.Get(size)
			free = append(free, func() { s.Free(key) })
		}
		collects := func() bool { // in one of the next periods; that after a collection counts as busy
			cycle := d.Cycle()
			for range 4 {
				<-time.After(trimPeriod)
				synctest.Wait()
			}
			return runFinalizers(func() bool { return d.Cycle() > cycle })
		}
		if !collects() {
			t.Fatal("no collection: the process is not idle")
		}
		for _, f := range free {
			f()
		}
		free = nil
		if !collects() {
			t.Errorf("no collection after the pool gave %d slabs up", d.classes[size].dropped.Load())
		}
		<-time.After(time.Hour) // the timer ends
	})
}
