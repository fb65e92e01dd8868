package bench

import "testing"

// BenchmarkMixed replays what real programs asked of their pool, frees in the order in which they
// came, on every processor at once. One operation is one buffer taken and given back.
func BenchmarkMixed(b *testing.B) {
	for _, name := range []string{"proxy", "grpc", "files", "smb"} {
		r := readTrace(b, name)
		b.Run("trace="+name, func(b *testing.B) {
			for _, h := range allHolders() {
				b.Run("peer="+h.name, func(b *testing.B) {
					b.ReportAllocs()
					newHolder := h.make(b, 1<<20)
					// Once through before the clock starts: what is measured is a pool at work, not its filling.
					gets := 0
					r.run(newHolder(r.slots), func() bool { gets++; return gets <= len(r.steps)/2 })
					b.ResetTimer()
					b.RunParallel(func(pb *testing.PB) { r.run(newHolder(r.slots), pb.Next) })
				})
			}
		})
	}
}
