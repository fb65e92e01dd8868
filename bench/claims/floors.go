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
	peer   string // the floor
	does   string // what it does
}

func floors() []floor {
	const cpu, rate = "cpu-ns/op", "calls/s"
	neutral := func(what string, size int, peer string, first float64) bar {
		return bar{what, fmt.Sprintf("Neutral/size=%d", size), cpu, peer, first, none, timesFaster}
	}
	call := func(what string, size, callers int, peer string, first float64) bar {
		return bar{what, fmt.Sprintf("Floor/tls=off/size=%d/callers=%d", size, callers), rate, peer, first, none, timesMore}
	}
	return []floor{
		{bar{"Split, against a pool that does not zero", "Split", "ns/op", "grpc-nozero", 4.5, none, timesFaster}, "", "added",
			"`sync.Pool` and two atomic additions"},
		{neutral("server by h2load, 100 B, against grpc-go", 100, "grpc", 5), "", "floor", "frames only"},
		{neutral("the same, against tonic", 100, "tonic", 3), "", "floor", "frames only"},
		{neutral("16 KiB, against tonic", 16<<10, "tonic", 1.33), "", "floor-kept", "frames, and a copy of the request"},
		{neutral("16 KiB, lent, against tonic", 16<<10, "tonic", 2), "tarn-lent", "floor", "frames only"},
		{neutral("1 MiB, against tonic", 1<<20, "tonic", 1.25), "", "floor-kept", "frames, and a copy of the request"},
		{neutral("1 MiB, lent, against tonic", 1<<20, "tonic", 1.5), "tarn-lent", "floor", "frames only"},
		{neutral("1 MiB, lent, against tonic", 1<<20, "tonic", 1.5), "tarn-lent", "floor-echo", "frames, and responses from the memory of their requests"},
		{call("unary gRPC, both ends, 100 B, 64 callers, against grpc-go", 100, 64, "grpc", 4.5), "", "floor", "the messages after their lengths"},
		{call("16 KiB, 8 callers", 16<<10, 8, "grpc", 2.2), "", "floor-copied", "the same, and a copy of each"},
		{call("1 MiB, 8 callers", 1<<20, 8, "grpc", 2.2), "", "floor-copied", "the same, and a copy of each"},
		{call("1 MiB, 8 callers", 1<<20, 8, "grpc", 2.2), "", "floor", "the messages after their lengths"},
		{call("messages on open streams, 100 B, 64 callers", 100, 64, "grpc-stream", 2), "tarn-stream", "floor", "the messages after their lengths"},
	}
}

// floorTable is a row for each floor whose benchmark's name begins with prefix.
func floorTable(r *results, prefix string) string {
	var b strings.Builder
	b.WriteString("| what | target | a program that does less (range) | Tarn (range) | what that program does |\n|---|---|---|---|---|\n")
	for _, f := range floors() {
		if !strings.HasPrefix(f.target.bench, prefix) {
			continue
		}
		own := f.own
		if own == "" {
			own = "tarn"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.target.what, f.target.goal(f.target.first), f.target.ratio(r, f.peer), f.target.ratio(r, own), f.does)
	}
	return b.String()
}

// ratio is that of a contestant in c's benchmark to c's peer, and its range over turns.
func (c bar) ratio(r *results, who string) string {
	ours, okOurs := r.median(c.bench, who, c.unit)
	theirs, okTheirs := r.median(c.bench, c.peer, c.unit)
	if !okOurs || !okTheirs {
		return "not measured"
	}
	v := ours / theirs
	if c.sense == timesFaster {
		v = theirs / ours
	}
	low, high := ends(c.turns(r, key{c.bench, who, c.unit}))
	return fmt.Sprintf("%.2f× (%.2f–%.2f)", v, low, high)
}
