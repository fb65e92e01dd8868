package tarn_test

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
)

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
