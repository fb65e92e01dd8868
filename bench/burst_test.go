package bench

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkBurstAfterGC takes 64 buffers of 32 KiB after the collector has run with all of them idle,
// once to three times, and frees them. It shows whether a pool keeps buffers over collections, and the time of a burst
// when it does not. Only the bursts after collections are timed: ns/op and B/op are those of 64 buffers.
func BenchmarkBurstAfterGC(b *testing.B) {
	for _, cycles := range []int{1, 2, 3} {
		b.Run(fmt.Sprintf("cycles=%d", cycles), func(b *testing.B) {
			for _, h := range allHolders() {
				b.Run("peer="+h.name, func(b *testing.B) { burst(b, h, cycles) })
			}
		})
	}
}

func burst(b *testing.B, h holders, cycles int) {
	const n, size = 64, 32 << 10
	b.ReportAllocs() // the figures themselves are reported below
	holder := h.make(b, size)(n)
	once := func() {
		for i := range n {
			holder.take(i, size)[0]++
		}
		for i := range n {
			holder.free(i)
		}
	}
	once() // the buffers are made: some contestants' pools are new here, others' are the process's
	var timed time.Duration
	var before, after runtime.MemStats
	var bytes, allocs uint64
	for range b.N {
		for range cycles {
			runtime.GC()
		}
		runtime.ReadMemStats(&before)
		start := time.Now()
		once()
		timed += time.Since(start)
		runtime.ReadMemStats(&after)
		bytes += after.TotalAlloc - before.TotalAlloc
		allocs += after.Mallocs - before.Mallocs
	}
	b.ReportMetric(float64(timed.Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(float64(bytes)/float64(b.N), "B/op")
	b.ReportMetric(float64(allocs)/float64(b.N), "allocs/op")
}
