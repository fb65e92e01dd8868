package main

import (
	"fmt"
	"strings"
)

// webKind is a kind of call of results/web.txt: what the table names it, its benchmark, and the target for the share of
// connect-go's processor time that one of rpc's servers takes.
type webKind struct {
	what, bench string
	peer        string // with the target
	target      float64
}

func webKinds() []webKind {
	const grpc, connect, json = "Web/protocol=grpc/http=2", "Web/protocol=connect/http=2", "Web/protocol=connect-json/http=1.1"
	return []webKind{
		{"gRPC over HTTP/2", grpc, "tarn", 0.35},
		{"Connect over HTTP/2", connect, "tarn", 0.35},
		{"Connect, JSON, over HTTP/1.1", json, "tarn-serve", 0.6},
		{"gRPC over HTTP/2, client accepts gzip", grpc + "/accept=gzip", "", none},
		{"Connect over HTTP/2, client accepts gzip", connect + "/accept=gzip", "", none},
		{"Connect, JSON, over HTTP/1.1, client accepts gzip", json + "/accept=gzip", "", none},
	}
}

// webServers are the servers of a kind of call, in the order of the table's rows; a kind has some of them.
func webServers() []struct{ peer, title string } {
	return []struct{ peer, title string }{
		{"connect", "connect-go on net/http"},
		{"tarn", "`ServeHTTP`"},
		{"tarn-serve", "`rpc.Server.Serve`"},
		{"floor", "a bare handler"},
		{"floor-canned-go", "canned, each call in a goroutine"},
		{"floor-canned", "canned, in the goroutine that reads"},
		{"tarn-loop", "`ServeHTTP` without net/http's server"},
		{"floor-loop", "a bare handler without net/http's server"},
		{"floor-unparsed", "head not parsed"},
		{"floor-echo", "head not parsed, no JSON"},
	}
}

// webTable lists the processor time of each server for each kind of call, and its share of connect-go's in the same turn.
func webTable(r *results) string {
	var b strings.Builder
	b.WriteString("| call | server | processor time (range) | share of connect-go's (range) | target |\n|---|---|---:|---:|---|\n")
	rows := 0
	for _, k := range webKinds() {
		what, first := k.what, r.values[key{k.bench, "connect", "cpu-ns/op"}]
		for _, s := range webServers() {
			took := r.values[key{k.bench, s.peer, "cpu-ns/op"}]
			if len(took) == 0 {
				continue
			}
			rows++
			var shares []float64
			if s.peer != "connect" {
				for i := range min(len(took), len(first)) {
					shares = append(shares, took[i]/first[i])
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", what, s.title, medianAndRange(took, "ns"), medianAndRange(shares, ""), k.verdict(s.peer, shares))
			what = ""
		}
	}
	if rows == 0 {
		return "Not measured yet.\n"
	}
	return b.String()
}

// verdict compares the share of a server with the target; empty for servers without one.
func (k webKind) verdict(peer string, shares []float64) string {
	switch {
	case peer != k.peer || k.target == none || len(shares) == 0:
		return ""
	case middle(shares) <= k.target:
		return fmt.Sprintf("≤ %.2f, met", k.target)
	}
	return fmt.Sprintf("≤ %.2f, **missed**", k.target)
}
