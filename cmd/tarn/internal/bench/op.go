package bench

import (
	"context"
	"runtime"
	"time"
)

// op is a contestant of the core section: do performs it n times.
type op struct {
	name string
	kind Kind
	do   func(n int)
}

func opMetrics() []Metric {
	return []Metric{
		{"ns", "time/op", Nanoseconds, Lower},
		{"allocs", "allocs/op", Count, Lower},
		{"bytes", "bytes/op", Bytes, Lower},
	}
}

// runOps measures ops alternately and reports the medians.
func (s *session) runOps(ctx context.Context, title string, ops []op) (Case, error) {
	c := Case{Title: title, Metrics: opMetrics()}
	results := make([]opResult, len(ops))
	for i, o := range ops {
		results[i].batch = calibrate(o.do, s.opTurn)
	}
	for round := range s.opRounds {
		for i, o := range ops {
			if err := ctx.Err(); err != nil {
				return c, err
			}
			s.progress.step("%s: %s (%d of %d)", title, o.name, round+1, s.opRounds)
			results[i].turn(o.do)
		}
	}
	for i, o := range ops {
		c.Rows = append(c.Rows, Row{Name: o.name, Kind: o.kind, Turns: results[i].ns, Values: map[string]float64{
			"ns":     median(results[i].ns),
			"allocs": median(results[i].allocs),
			"bytes":  median(results[i].bytes),
		}})
	}
	c.compare()
	return c, nil
}

// calibrate returns how many operations fill a turn.
func calibrate(do func(int), turn time.Duration) int {
	for n := 1; ; n *= 2 {
		start := time.Now()
		do(n)
		if took := time.Since(start); took >= turn/8 || n >= 1<<30 {
			return max(1, int(float64(n)*float64(turn)/float64(max(took, 1))))
		}
	}
}

type opResult struct {
	batch             int
	ns, allocs, bytes []float64
}

func (r *opResult) turn(do func(int)) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	do(r.batch)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	n := float64(r.batch)
	r.ns = append(r.ns, float64(took.Nanoseconds())/n)
	r.allocs = append(r.allocs, float64(after.Mallocs-before.Mallocs)/n)
	r.bytes = append(r.bytes, float64(after.TotalAlloc-before.TotalAlloc)/n)
}
