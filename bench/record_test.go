package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/sizing"
)

// BenchmarkRecord measures the recording of sizes: the same Get and Free with and without it.
func BenchmarkRecord(b *testing.B) {
	for _, size := range []int{256, 4 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			runPeers(b, []peer{
				{"off", func(b *testing.B) { getFreeRecord(b, size, tarn.RecordOff) }},
				{"on", func(b *testing.B) { getFreeRecord(b, size, tarn.RecordOn) }},
			})
		})
	}
}

func getFreeRecord(b *testing.B, size int, record tarn.RecordPolicy) {
	b.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "bench", Check: tarn.CheckOff, Record: record})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.Get(size).Free()
	}
}

// BenchmarkAdaptation replays a recorded program on size classes of powers of two: unchanged, and with an
// adapter that examines the histogram a hundred times a second, far more often than in a program. It also
// reports the share that the classes in force at the end waste, over all gets that the pool recorded. The smb trace copies files to a
// server and back, with other sizes each way: the classes at its end may fit one way alone, and waste more over both than the static ones.
func BenchmarkAdaptation(b *testing.B) {
	for _, name := range []string{"proxy", "grpc", "files", "smb"} {
		b.Run("trace="+name, func(b *testing.B) {
			runPeers(b, []peer{
				{"static", func(b *testing.B) { replayAdapted(b, name, nil) }},
				{"adapting", func(b *testing.B) {
					replayAdapted(b, name, &sizing.AdapterConfig{Every: 10 * time.Millisecond, Classes: 24, MinGets: 20000})
				}},
			})
		})
	}
}

// replayAdapted runs one get, and the frees after it, an operation.
func replayAdapted(b *testing.B, name string, c *sizing.AdapterConfig) {
	b.Helper()
	var doubling []int
	for size := 256; size <= 1<<20; size *= 2 {
		doubling = append(doubling, size)
	}
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "bench", Check: tarn.CheckOff, Classes: doubling})
	if err != nil {
		b.Fatal(err)
	}
	r := readTrace(b, name)
	h := &tarnBuffers{pool: p, held: make([]tarn.Buffer, r.slots)}
	if c != nil {
		a, err := sizing.Adapt(context.Background(), p, *c)
		if err != nil {
			b.Fatal(err)
		}
		defer a.Stop()
		defer func() { b.ReportMetric(float64(a.Moves()), "moves") }()
	}
	r.run(h, b.Loop)
	u, err := sizing.Measure(p.Histogram(), p.Classes())
	if err != nil {
		return // too few gets to have recorded any
	}
	b.ReportMetric(100*u.Share(), "%waste")
}

// tarnBuffers holds a replay's buffers.
type tarnBuffers struct {
	pool *tarn.Pool
	held []tarn.Buffer
}

func (h *tarnBuffers) take(slot, size int) []byte {
	h.held[slot] = h.pool.Get(size)
	return h.held[slot].Bytes()
}

func (h *tarnBuffers) free(slot int) { h.held[slot].Free() }
