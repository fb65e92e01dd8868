package main

import (
	"fmt"
	"strings"
)

// floor is what a target can come to: the ratio to a peer that a program reaches which does less than any pool or
// runtime must, beside Tarn's. Where the first is below the target, the target cannot be met on that machine.
type floor struct {
	target bar
	own    string // Tarn's contestant; empty: tarn
	bench  string // the floor's benchmark; empty: the target's
	peer   string // the floor
	does   string // what it does
}

func floors() []floor {
	const cpu, rate = "cpu-ns/op", "calls/s"
	neutral := func(what string, size int, peer string, first float64) bar {
		return bar{what, fmt.Sprintf("Neutral/size=%d", size), cpu, peer, first, none, timesFaster}
	}
	call := func(what, kind string, size, callers int, first float64) bar {
		return bar{what, fmt.Sprintf("%s/tls=off/size=%d/callers=%d", kind, size, callers), rate, "grpc", first, none, timesMore}
	}
	message := func(size, callers int) string {
		return fmt.Sprintf("Floor/tls=off/size=%d/callers=%d", size, callers)
	}
	return []floor{
		{bar{"Split, against a pool that does not zero", "Split", "ns/op", "grpc-nozero", 4.5, none, timesFaster}, "", "", "added",
			"`sync.Pool` and two atomic additions"},
		{neutral("server by h2load, 100 B, against grpc-go", 100, "grpc", 5), "", "", "floor", "frames only"},
		{neutral("the same, against tonic", 100, "tonic", 3), "", "", "floor", "frames only"},
		{neutral("16 KiB, against tonic", 16<<10, "tonic", 1.33), "", "", "floor-kept", "frames, and a copy of the request"},
		{neutral("16 KiB, lent, against tonic", 16<<10, "tonic", 2), "tarn-lent", "", "floor", "frames only"},
		{neutral("1 MiB, against tonic", 1<<20, "tonic", 1.25), "", "", "floor-kept", "frames, and a copy of the request"},
		{neutral("1 MiB, lent, against tonic", 1<<20, "tonic", 1.5), "tarn-lent", "", "floor", "frames only"},
		{neutral("1 MiB, lent, against tonic", 1<<20, "tonic", 1.5), "tarn-lent", "", "floor-echo", "frames, and responses from the memory of their requests"},
		{call("unary gRPC, both ends, 100 B, 64 callers, against grpc-go", "Unary", 100, 64, 4.5), "", message(100, 64), "floor",
			"the messages after their lengths"},
		{call("16 KiB, 8 callers", "Unary", 16<<10, 8, 2.2), "", message(16<<10, 8), "floor-copied", "the same, and a copy of each"},
		{call("1 MiB, 8 callers", "Unary", 1<<20, 8, 2.2), "", message(1<<20, 8), "floor-copied", "the same, and a copy of each"},
		{call("1 MiB, 8 callers", "Unary", 1<<20, 8, 2.2), "", message(1<<20, 8), "floor", "the messages after their lengths"},
		{call("messages on open streams, 100 B, 64 callers", "Stream", 100, 64, 2), "", message(100, 64), "floor", "the messages after their lengths"},
	}
}

// floorTable is a row for each floor.
func floorTable(r *results) string {
	var b strings.Builder
	b.WriteString("| what | target | a program that does less (range) | Tarn (range) | what that program does |\n|---|---|---|---|---|\n")
	for _, f := range floors() {
		own, bench := f.own, f.bench
		if own == "" {
			own = "tarn"
		}
		if bench == "" {
			bench = f.target.bench
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.target.what, f.target.goal(f.target.first),
			f.target.ratio(r, bench, f.peer), f.target.ratio(r, f.target.bench, own), f.does)
	}
	return b.String()
}

// ratio is that of a contestant in a benchmark to c's peer in c's, and its range over turns of the same number. Those of another benchmark than
// c's are of the same run, but not of the same minute.
func (c bar) ratio(r *results, bench, who string) string {
	ours, okOurs := r.median(bench, who, c.unit)
	theirs, okTheirs := r.median(c.bench, c.peer, c.unit)
	if !okOurs || !okTheirs {
		return "not measured"
	}
	v := ours / theirs
	if c.sense == timesFaster {
		v = theirs / ours
	}
	low, high := c.boundsOf(r, key{bench, who, c.unit})
	return fmt.Sprintf("%.2f× (%.2f–%.2f)", v, low, high)
}
