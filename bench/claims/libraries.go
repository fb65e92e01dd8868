package main

import (
	"fmt"
	"strings"
)

// libraryWork is what a library does in a benchmark of results/libraries.
type libraryWork struct {
	what, bench     string
	calls, allocate float64 // targets: times the calls of the stock ClientConn, and at most that share of its allocations; 0: none
}

func libraryWorks() []libraryWork {
	return []libraryWork{
		{"etcd: a put and a get of 100 bytes, etcd of two members without fsync", "PutGet", 1.3, 0.6},
		{"the same with 32 callers a processor", "PutGetBusy", 1.3, 0.6},
		{"Bigtable: one row of 100 bytes", "ReadRow", 1.3, 0.6},
		{"the same with 32 callers a processor", "ReadRowBusy", 1.3, 0.6},
		{"Bigtable: 200 rows in a call", "ReadRows", 0, 0},
		{"OTLP exporter: ten spans", "OTLP", 0, 0},
		{"Dapr: a value of 100 bytes", "Dapr", 0, 0},
		{"hashicorp/go-plugin: a health check over a Unix socket", "Plugin", 0, 0},
		{"grpc-gateway in front of etcd: a get of 100 bytes, JSON", "Gateway", 0, 0},
	}
}

// libraryTable compares rpc, and a transport that does the least, with the stock ClientConn below each library, turn by turn.
func libraryTable(r *results) string {
	var b strings.Builder
	b.WriteString("| | | time of a call (range) | calls a second | client's processor time | allocations | target |\n|---|---|---:|---|---|---|---|\n")
	rows := 0
	for _, w := range libraryWorks() {
		what := w.what
		for _, peer := range []struct{ peer, title string }{{"grpc", "stock"}, {"tarn", "rpc"}, {"floor", "floor"}} {
			of := func(peer, unit string) []float64 { return r.values[key{w.bench, peer, unit}] }
			took := of(peer.peer, "ns/op")
			if len(took) == 0 {
				continue
			}
			rows++
			calls, processor, allocations := shares(of("grpc", "ns/op"), took), shares(of(peer.peer, "cpu-us/op"), of("grpc", "cpu-us/op")), ""
			if made := of(peer.peer, "allocs/op"); len(made) > 0 {
				allocations = fmt.Sprintf("%.0f", middle(made))
			}
			if peer.peer == "grpc" {
				calls, processor = nil, nil
			} else if a := shares(of(peer.peer, "allocs/op"), of("grpc", "allocs/op")); len(a) > 0 {
				allocations = fmt.Sprintf("%s (%.2f)", allocations, middle(a))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", what, peer.title, micros(took)+" µs", medianAndRange(calls, ""), medianAndRange(processor, ""), allocations, w.verdict(peer.peer, r))
			what = ""
		}
	}
	if rows == 0 {
		return "Not measured yet.\n"
	}
	return b.String()
}

// verdict compares rpc with the targets; empty for others, and where there are none.
func (w libraryWork) verdict(peer string, r *results) string {
	if peer != "tarn" || w.calls == 0 {
		return ""
	}
	calls := shares(r.values[key{w.bench, "grpc", "ns/op"}], r.values[key{w.bench, peer, "ns/op"}])
	made := shares(r.values[key{w.bench, peer, "allocs/op"}], r.values[key{w.bench, "grpc", "allocs/op"}])
	if len(calls) == 0 || len(made) == 0 {
		return ""
	}
	of := func(met bool) string {
		if met {
			return "met"
		}
		return "**missed**"
	}
	return fmt.Sprintf("calls ≥ %.1f, %s; allocations ≤ %.1f, %s", w.calls, of(middle(calls) >= w.calls), w.allocate, of(middle(made) <= w.allocate))
}

// shares are the quotients of the values of the same turns.
func shares(of, in []float64) []float64 {
	var out []float64
	for i := range min(len(of), len(in)) {
		out = append(out, of[i]/in[i])
	}
	return out
}
