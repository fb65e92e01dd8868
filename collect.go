package tarn

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How CollectWhenIdle tells an idle process, and bounds its cost.
const (
	idlePeriod = 4 * time.Second
	// idleShare is the most that an idle process allocates in a period, as a share of its heap's memory; idleBytes is what it may
	// in any case.
	idleShare = 1.0 / 64
	idleBytes = 1 << 20
	// collectShare is by how much the heap's memory must have grown since the last collections to be worth more of them;
	// collectFrom is the least, in bytes.
	collectShare = 0.25
	collectFrom  = 4 << 20
	// collections are how many follow each other, a period apart: at the first a pool shelves its idle slabs, and the runtime drops
	// what a processor keeps to itself at the second, which the third frees.
	collections = 3
	// collectPause is how many times as long as a collection took there is none after it.
	collectPause = 100
)

// CollectWhenIdle gives the memory of a process that has become idle back to the system, until ctx ends: the program's garbage and
// what its pools have given up. Go's runtime collects no garbage for two minutes in a process that allocates nothing, and returns
// memory slowly, so that the process keeps the size that a burst of traffic gave it.
//
// When the process has run no collection and allocated next to nothing for four seconds, and its heap has grown by a quarter and by
// 4 MiB since the last time, it calls debug.FreeOSMemory three times, four seconds apart. Collections take at most a hundredth of
// the time: a process with gigabytes of live memory, which takes a second to collect, waits for a hundred seconds after each. Run
// it once in a process, on a goroutine of its own; libraries leave it to the program.
func CollectWhenIdle(ctx context.Context) {
	period := time.NewTicker(idlePeriod)
	defer period.Stop()
	last := readHeap()
	var collected uint64 // the heap's memory after the last collections
	var left int         // collections that are due
	var after time.Time  // none before
	for {
		select {
		case <-ctx.Done():
			return
		case <-period.C:
		}
		now := readHeap()
		idle := now.cycles == last.cycles && float64(now.allocated-last.allocated) <= max(idleBytes, idleShare*float64(now.memory))
		last = now
		if left == 0 && float64(now.memory) >= float64(collected)+max(collectFrom, collectShare*float64(collected)) {
			left = collections
		}
		if !idle || left == 0 || time.Now().Before(after) {
			continue
		}
		begun := time.Now()
		debug.FreeOSMemory()
		after = time.Now().Add(collectPause * time.Since(begun))
		left--
		last = readHeap()
		collected = last.memory
	}
}

// heap is the state of the Go heap.
type heap struct {
	memory    uint64 // bytes that it has from the system and has not given back, garbage included
	allocated uint64 // bytes that have ever been allocated
	cycles    uint64 // garbage collections
}

func readHeap() heap {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return heap{s[0].Value.Uint64() + s[1].Value.Uint64() + s[2].Value.Uint64(), s[3].Value.Uint64(), s[4].Value.Uint64()}
}
