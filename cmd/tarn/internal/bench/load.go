package bench

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// load is a contestant of the sections that make requests: call makes one request, for the caller of the given number, and
// waits for its answer. Callers are concurrent; one number is never used twice at a time.
type load struct {
	name string
	kind Kind
	call func(ctx context.Context, caller int) error
}

func loadMetrics() []Metric {
	return []Metric{
		{"rate", "req/s", Count, Higher},
		{"p50", "p50", Nanoseconds, Lower},
		{"p99", "p99", Nanoseconds, Lower},
		{"allocs", "allocs/req", Count, Lower},
		{"bytes", "bytes/req", Bytes, Lower},
		{"gc", "GC/s", Count, Lower},
		{"peak", "peak memory", Bytes, Lower},
	}
}

// runLoads measures loads alternately and reports medians of the rates, latencies over all turns, and the
// highest peak.
func (s *session) runLoads(ctx context.Context, title string, loads []load) (Case, error) {
	c := Case{Title: title, Metrics: loadMetrics()}
	results := make([]loadResult, len(loads))
	for _, l := range loads {
		s.progress.step("%s: %s (warming up)", title, l.name)
		if _, err := drive(ctx, l.call, s.callers, s.warmUp); err != nil {
			return c, err
		}
	}
	for round := range s.loadRounds {
		for _, i := range inTurn(round, len(loads)) {
			l := loads[i]
			s.progress.step("%s: %s (%d of %d)", title, l.name, round+1, s.loadRounds)
			if err := results[i].turn(ctx, l, s.plan); err != nil {
				return c, err
			}
		}
	}
	for i, l := range loads {
		c.Rows = append(c.Rows, Row{Name: l.name, Kind: l.kind, Turns: results[i].rates, Values: results[i].values()})
	}
	c.compare()
	return c, nil
}

type loadResult struct {
	rates         []float64
	seen          latencies
	allocs, bytes uint64
	cycles        uint32
	took          time.Duration
	peak          uint64
}

func (r *loadResult) turn(ctx context.Context, l load, p plan) error {
	// Each turn begins with live memory only: otherwise its peak would be that of the previous turn.
	debug.FreeOSMemory()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	watch := watchMemory()
	start := time.Now()
	seen, err := drive(ctx, l.call, p.callers, p.loadTurn)
	took := time.Since(start)
	peak := watch.stop()
	runtime.ReadMemStats(&after)
	if err != nil {
		return err
	}
	r.rates = append(r.rates, float64(seen.n)/took.Seconds())
	r.seen.merge(seen)
	r.allocs += after.Mallocs - before.Mallocs
	r.bytes += after.TotalAlloc - before.TotalAlloc
	r.cycles += after.NumGC - before.NumGC
	r.took += took
	r.peak = max(r.peak, peak)
	return nil
}

func (r *loadResult) values() map[string]float64 {
	n := float64(max(r.seen.n, 1))
	return map[string]float64{
		"rate":   median(r.rates),
		"p50":    float64(r.seen.quantile(0.50)),
		"p99":    float64(r.seen.quantile(0.99)),
		"allocs": float64(r.allocs) / n,
		"bytes":  float64(r.bytes) / n,
		"gc":     float64(r.cycles) / r.took.Seconds(),
		"peak":   float64(r.peak),
	}
}

// drive has callers make calls for d and returns how long each call took. The first error ends it.
func drive(ctx context.Context, call func(context.Context, int) error, callers int, d time.Duration) (*latencies, error) {
	deadline := time.Now().Add(d)
	var wg sync.WaitGroup
	seen := make([]latencies, callers)
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			for now := time.Now(); now.Before(deadline) && errs[i] == nil; {
				errs[i] = call(ctx, i)
				then := time.Now()
				seen[i].add(then.Sub(now))
				now = then
			}
		})
	}
	wg.Wait()
	for i := range callers {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if i > 0 {
			seen[0].merge(&seen[i])
		}
	}
	return &seen[0], nil
}
