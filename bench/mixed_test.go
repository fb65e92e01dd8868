package bench

import "testing"

// BenchmarkMixed replays the recorded gets and frees of real programs, in their order,
// on every processor at once. One operation is one buffer taken and freed.
func BenchmarkMixed(b *testing.B) {
	for _, name := range []string{"proxy", "grpc", "files", "smb"} {
		r := readTrace(b, name)
		b.Run("trace="+name, func(b *testing.B) {
			for _, h := range allHolders() {
				b.Run("peer="+h.name, func(b *testing.B) {
					b.ReportAllocs()
					newHolder := h.make(b, 1<<20)
					// One replay before the clock starts fills the pool, so that the filling is not measured.
					gets := 0
					r.run(newHolder(r.slots), func() bool { gets++; return gets <= len(r.steps)/2 })
					b.ResetTimer()
					b.RunParallel(func(pb *testing.PB) { r.run(newHolder(r.slots), pb.Next) })
				})
			}
		})
	}
}
