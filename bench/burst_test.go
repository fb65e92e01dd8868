package bench

import (
	"runtime"
	"testing"
	"time"
)

// BenchmarkBurstAfterGC takes 64 buffers of 32 KiB after the collector has run twice with all of them
// idle, and gives them back: whether a pool keeps what is in use often, and what it costs when it
// does not. Only the burst is timed: ns/op and B/op are those of 64 buffers.
func BenchmarkBurstAfterGC(b *testing.B) {
	for _, h := range allHolders() {
		b.Run("peer="+h.name, func(b *testing.B) { burst(b, h) })
	}
}

func burst(b *testing.B, h holders) {
	const n, size = 64, 32 << 10
	holder := h.make(b)(n)
	var timed time.Duration
	var before, after runtime.MemStats
	var allocated uint64
	for range b.N {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		for i := range n {
			holder.take(i, size)[0]++
		}
		for i := range n {
			holder.free(i)
		}
		timed += time.Since(start)
		runtime.ReadMemStats(&after)
		allocated += after.TotalAlloc - before.TotalAlloc
	}
	b.ReportMetric(float64(timed.Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(float64(allocated)/float64(b.N), "B/op")
}
