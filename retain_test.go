package tarn_test

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
)

// collect runs the garbage collector until done returns true: finalizers run on a separate goroutine, so the
// number of rounds varies.
func collect(t *testing.T, what string, done func() bool) {
	t.Helper()
	rounds := 0
	for begun := time.Now(); rounds < 200 || time.Since(begun) < time.Minute; rounds++ {
		runtime.GC()
		if done() {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("after %d collections: not yet %s", rounds, what)
}

// What is kept never exceeds the bound, with any number of goroutines at once. Stats looks at one class after
// the other, so its sum is that of one instant only while no goroutine gets or frees: the watcher takes a
// write lock that excludes both.
func TestRetentionIsBoundedUnderConcurrency(t *testing.T) {
	const bound = 1 << 20
	p := newPool(t, tarn.PoolConfig{Retain: bound})
	var operation sync.RWMutex // read-locked by each Get or Free
	stop := make(chan struct{})
	var watch, work sync.WaitGroup
	watch.Go(func() {
		for {
			operation.Lock()
			st := p.Stats()
			operation.Unlock()
			if st.Idle > bound {
				t.Errorf("%d bytes idle; the bound is %d", st.Idle, bound)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for g := range 100 {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			var held []tarn.Buffer
			for range 300 {
				operation.RLock()
				held = append(held, p.Get(1+r.IntN(40_000)))
				if len(held) > 10 {
					k := r.IntN(len(held))
					held[k].Free()
					held[k] = held[len(held)-1]
					held = held[:len(held)-1]
				}
				operation.RUnlock()
			}
			for _, b := range held {
				b.Free()
			}
		})
	}
	work.Wait()
	close(stop)
	watch.Wait()
	st := p.Stats()
	if st.Idle > bound || st.InUse != 0 {
		t.Errorf("when idle: idle %d, in use %d", st.Idle, st.InUse)
	}
	collect(t, "balanced", func() bool { st := p.Stats(); return st.Gets == 30_000 && st.Frees == 30_000 })
	if st.Dropped == 0 {
		t.Error("nothing was dropped: the bound was never reached, the test is too small")
	}
}

func TestRetainNothing(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Retain: tarn.RetainNothing})
	p.Get(100).Free()
	if st := p.Stats(); st.Idle != 0 || st.Dropped != 1 {
		t.Errorf("idle %d, dropped %d", st.Idle, st.Dropped)
	}
}

func TestIdleMemoryDecays(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{})
	var held []tarn.Buffer
	for range 100 {
		held = append(held, p.Get(32<<10))
	}
	for _, b := range held {
		b.Free()
	}
	collect(t, "without idle memory", func() bool { return p.Stats().Idle == 0 })
	st := p.Stats()
	if st.Gets != 100 || st.Frees != 100 || st.Leaked != 0 || st.InUse != 0 || st.Cycles == 0 {
		t.Errorf("figures after the decay: %+v", st)
	}
	if st.Peak < 100*32<<10 {
		t.Errorf("peak %d", st.Peak)
	}
}

// An oversized buffer is not kept because smaller buffers keep the pool busy.
func TestOversizedBuffersAreNotKept(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{})
	p.Get(8 << 20).Free()
	p.Get(64 << 20).Free() // above the largest class: never kept
	collect(t, "without the oversized buffer", func() bool {
		p.Get(1000).Free()
		return p.Stats().Idle <= 1024
	})
}

// TestTrim frees and trims on one processor: what another one keeps for itself stays.
func TestTrim(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	collectNothing(t)
	p := newPool(t, tarn.PoolConfig{})
	p.Get(100).Free()
	p.Get(100_000).Free()
	out := p.Get(1000)
	p.Trim()
	st := p.Stats()
	if !raceEnabled && st.Idle != 0 || st.InUseBuffers != 1 { // race builds drop slabs on Put at random
		t.Errorf("after Trim: idle %d, out %d", st.Idle, st.InUseBuffers)
	}
	out.Free()
}

func TestLeaksAreCountedAtEveryLevel(t *testing.T) {
	for _, level := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckAll, tarn.CheckGuard} {
		t.Run(level.String(), func(t *testing.T) {
			var mu sync.Mutex
			var reported []tarn.Misuse
			p := newPool(t, tarn.PoolConfig{Check: level, Report: func(m tarn.Misuse) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, m)
			}})
			forget(p)
			want := 3 * int(min(level/tarn.CheckAll, 1))
			collect(t, "three leaks counted and reported", func() bool { // one after the other
				mu.Lock()
				defer mu.Unlock()
				return p.Stats().Leaked == 3 && len(reported) >= want
			})
			st := p.Stats()
			if st.InUseBuffers != 0 || st.Frees != 0 {
				t.Errorf("figures: %+v", st)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(reported) != want {
				t.Fatalf("%d leaks reported, want %d", len(reported), want)
			}
			for _, m := range reported {
				if m.Kind != tarn.Leak || len(m.Acquired) == 0 {
					t.Errorf("reported %v", &m)
				}
			}
			if n := len(p.Outstanding()); n != 0 {
				t.Errorf("%d leaked buffers are listed as out", n)
			}
		})
	}
}

// TestCountersGrowWhileLeaksWait: hits, misses and their sum do not run backwards while the collector has found leaked slabs and their
// finalizers have not run, which a program that leaks much has most of the time.
func TestCountersGrowWhileLeaksWait(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff, Report: func(tarn.Misuse) {}})
	leaking := make([]tarn.Buffer, 50)
	for range 20 {
		for i := range leaking {
			leaking[i] = p.Get(1000)
		}
		for _, b := range leaking {
			b.Free()
		}
	}
	for i := range leaking {
		leaking[i] = p.Get(1000)
	}
	cycle := p.Stats().Cycles
	collect(t, "two cycles", func() bool { return p.Stats().Cycles >= cycle+2 }) // from then on the pool refers to no slab that is in use
	release := holdFinalizers(t)
	before := p.Stats()
	clear(leaking)
	runtime.GC()
	var held tarn.Chain
	for range 50 {
		held.Append(p.Get(1000))
		after := p.Stats()
		if after.Hits < before.Hits || after.Misses < before.Misses || after.Gets < before.Gets || after.Gets != after.Hits+after.Misses {
			t.Errorf("%d gets, %d hits, %d misses became %d, %d, %d", before.Gets, before.Hits, before.Misses, after.Gets, after.Hits, after.Misses)
			break
		}
		before = after
	}
	release()
	held.Free()
	collect(t, "50 leaks counted", func() bool { return p.Stats().Leaked == 50 })
}

// holdFinalizers lets no finalizer run until it is told to.
func holdFinalizers(t *testing.T) (release func()) {
	begun, held := make(chan struct{}), make(chan struct{})
	type object struct{ *object } // not one of those small ones without pointers that share memory
	runtime.SetFinalizer(new(object), func(*object) {
		close(begun)
		<-held
	})
	collect(t, "held", func() bool {
		select {
		case <-begun:
			return true
		default:
			return false
		}
	})
	return func() { close(held) }
}

// forget leaks three slabs.
//
//tarn:owned the garbage collector takes them, which is what the tests count
//go:noinline
func forget(p *tarn.Pool) {
	p.Get(100)
	p.Get(100 << 20 >> 5)
	b := p.Get(1000).Slice(1, 2)
	_ = b
}

func TestAbandonedPoolIsCollected(t *testing.T) {
	gone := make(chan struct{})
	func() {
		p := newPool(t, tarn.PoolConfig{})
		p.Get(1 << 20).Free()
		runtime.AddCleanup(p, func(ch chan struct{}) { close(ch) }, gone)
	}()
	collect(t, "collected", func() bool {
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
}

func TestStats(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Name: "mine", Classes: []int{64, 1024}, Check: tarn.CheckOff})
	a, b, c := p.Get(10), p.Get(1000), p.Get(5000)
	st := p.Stats()
	if st.Name != "mine" || st.InUseBuffers != 3 || st.InUse != 64+1024+5000 || st.Idle != 0 {
		t.Errorf("three out: %+v", st)
	}
	if len(st.Classes) != 3 || st.Classes[0].Size != 64 || st.Classes[1].Size != 1024 || st.Classes[2].Size != 0 {
		t.Fatalf("classes: %+v", st.Classes)
	}
	for _, c := range st.Classes {
		if c.Gets != 1 || c.Misses != 1 || c.Hits != 0 || c.InUse != 1 || c.Frees != 0 {
			t.Errorf("class %d: %+v", c.Size, c)
		}
	}
	a.Free()
	b.Free()
	c.Free()
	st = p.Stats()
	if st.Gets != 3 || st.Frees != 3 || st.Hits+st.Misses != st.Gets || st.InUseBuffers != 0 || st.InUse != 0 {
		t.Errorf("with all slabs back in the pool: %+v", st)
	}
	if st.Peak != 64+1024+5000 {
		t.Errorf("peak %d", st.Peak)
	}
}

func TestRefuse(t *testing.T) {
	var reported []tarn.Misuse
	p := newPool(t, tarn.PoolConfig{Report: func(m tarn.Misuse) { reported = append(reported, m) }})
	p.Refuse(make([]byte, 10))
	if st := p.Stats(); st.Refused != 1 || len(reported) != 1 || reported[0].Kind != tarn.ForeignFree || reported[0].Error() == "" {
		t.Errorf("refused %d, reported %v", st.Refused, reported)
	}
}

// cycle runs the garbage collector until the pool has counted one collection more, and no others.
func cycle(t *testing.T, p *tarn.Pool) {
	t.Helper()
	before := p.Stats().Cycles
	runtime.GC()
	for begun := time.Now(); p.Stats().Cycles == before; runtime.Gosched() { // a finalizer counts, whenever it may run
		if time.Since(begun) > time.Minute {
			t.Fatal("the pool does not count collections")
		}
	}
}

// apart is how many idle slabs of a class a processor cannot get, at most: a sync.Pool keeps one for each processor alone,
// and one of before the last collection.
func apart() uint64 { return uint64(max(1, 2*(runtime.GOMAXPROCS(0)-1))) }

// burst takes n buffers of 32 KiB and gives them back, and returns how many were allocated.
func burst(p *tarn.Pool, n int) (misses uint64) {
	before := p.Stats().Misses
	var held []tarn.Buffer
	for range n {
		held = append(held, p.Get(32<<10))
	}
	for _, b := range held {
		b.Free()
	}
	return p.Stats().Misses - before
}

// The slabs of a burst are reused by the next one within three collections, and are given up soon after.
func TestBurstsWithinThreeCollectionsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector drops items of every sync.Pool at random: only that nothing breaks is tested")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collections are run by hand
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff, Record: tarn.RecordOff})
	const n = 64
	burst(p, n)
	for cycles := 1; cycles <= 3; cycles++ {
		for range cycles {
			cycle(t, p)
		}
		if misses := burst(p, n); misses > apart() && !raceEnabled {
			t.Errorf("after %d collections %d of %d buffers are allocated", cycles, misses, n)
		}
	}
	for range 4 {
		cycle(t, p)
	}
	if st := p.Stats(); uint64(st.Idle) > apart()*32<<10 && !raceEnabled {
		t.Errorf("%d bytes idle after four collections", st.Idle)
	}
}

// collectNothing has the runtime run no collection until the test ends, after one that may be under way: what a collection
// takes out of a sync.Pool comes to the shelf when its finalizer has run, and so counts as idle from then on.
func collectNothing(t *testing.T) {
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	runtime.GC()
}

// Without any collection, idle memory is given up by the clock, and what is in use is not.
func TestIdleMemoryIsTrimmedByTheClock(t *testing.T) {
	collectNothing(t)
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff, Record: tarn.RecordOff})
		held := p.Get(1 << 20)
		burst(p, 64)
		if st := p.Stats(); st.Idle == 0 {
			t.Fatal("nothing idle after a burst")
		}
		<-time.After(9 * time.Second)
		synctest.Wait()
		if st := p.Stats(); uint64(st.Idle) > apart()*32<<10 && !raceEnabled || st.InUse == 0 {
			t.Errorf("after nine seconds %d bytes are idle and %d in use", st.Idle, st.InUse)
		}
		held.Free()
		<-time.After(9 * time.Second)
		synctest.Wait()
		if st := p.Stats(); uint64(st.Idle) > apart()<<20 && !raceEnabled || st.Leaked != 0 {
			t.Errorf("at the end %d bytes are idle", st.Idle)
		}
		<-time.After(time.Hour) // the timer ends
	})
}

// What is in use all the time survives the timer.
func TestBusySlabsAreNotTrimmed(t *testing.T) {
	collectNothing(t)
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff, Record: tarn.RecordOff})
		burst(p, 16)
		<-time.After(time.Second / 2) // never at the moment in which the timer goes off
		for range 60 {
			<-time.After(time.Second)
			if misses := burst(p, 16); misses > apart() && !raceEnabled {
				t.Fatalf("%d of 16 buffers were given up between two bursts", misses)
			}
		}
	})
}

// Near the process's memory limit a collection leaves nothing idle.
func TestMemoryLimitEmptiesThePool(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	burst(p, 64)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	debug.SetMemoryLimit(1 << 20)
	for range 6 { // what a sync.Pool has dropped meanwhile is found by its finalizers
		cycle(t, p)
	}
	if st := p.Stats(); uint64(st.Idle) > apart()*32<<10 && !raceEnabled {
		t.Errorf("%d bytes idle beyond the memory limit", st.Idle)
	}
}

// The garbage of a burst, made by the program or given up by the pool, leaves the process once it is idle. Without CollectWhenIdle
// it stays.
func TestCollectWhenIdle(t *testing.T) {
	for name, collect := range map[string]func(context.Context){"on": tarn.CollectWhenIdle, "off": func(context.Context) {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as in a process that allocates nothing
				debug.FreeOSMemory()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go collect(ctx)
				p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff, Record: tarn.RecordOff})
				for range 2 {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					burst(p, 64)
					garbage := make([][]byte, 32)
					for i := range garbage {
						garbage[i] = make([]byte, 1<<20)
					}
					garbage = nil
					<-time.After(time.Minute)
					synctest.Wait()
					runtime.ReadMemStats(&after)
					collections := after.NumForcedGC - before.NumForcedGC
					grown := int64(after.HeapSys-after.HeapReleased) - int64(before.HeapSys-before.HeapReleased)
					switch {
					case name == "off" && collections != 0:
						t.Errorf("%d collections", collections)
					case name == "on" && (collections != 3 || grown > 8<<20):
						t.Errorf("%d collections, and %d bytes more memory than before the burst", collections, grown)
					}
				}
				cancel()
				<-time.After(time.Hour) // the pool's timer ends
			})
		})
	}
}
