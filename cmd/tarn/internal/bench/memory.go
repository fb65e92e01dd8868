package bench

import (
	"runtime/metrics"
	"time"
)

// peakMemory samples the memory that the Go runtime holds from the system, every ten milliseconds until it is
// stopped. Memory that is taken and returned between two samples is not counted.
type peakMemory struct {
	stopped chan struct{}
	peak    chan uint64
}

func watchMemory() *peakMemory {
	w := &peakMemory{make(chan struct{}), make(chan uint64, 1)}
	go w.watch(time.NewTicker(10 * time.Millisecond))
	return w
}

func (w *peakMemory) watch(tick *time.Ticker) {
	defer tick.Stop()
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	var peak uint64
	for {
		metrics.Read(samples)
		peak = max(peak, samples[0].Value.Uint64()-samples[1].Value.Uint64())
		select {
		case <-tick.C:
		case <-w.stopped:
			w.peak <- peak
			return
		}
	}
}

// stop returns the most that was held, in bytes. It may be called once.
func (w *peakMemory) stop() uint64 {
	close(w.stopped)
	return <-w.peak
}
