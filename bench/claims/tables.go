package main

import (
	"fmt"
	"slices"
	"strings"
)

// valueTable lists a benchmark's medians, a row for each of its cases and a column for each peer.
type valueTable struct {
	name  string
	unit  string
	match string   // what the benchmark's name begins with
	peers []string // the columns, those that have no value anywhere left out
}

func valueTables() []valueTable {
	core := []string{"tarn", "syncpool", "mcache", "bytebufferpool", "libp2p", "grpc-nozero", "grpc", "make"}
	rpc := []string{"tarn", "grpc", "grpc-tuned", "connect"}
	smb := []string{"tarn", "go-smb2", "smbclient"}
	return []valueTable{
		{"getfree", "ns/op", "GetFree/", core},
		{"split", "ns/op", "Split", []string{"tarn", "syncpool", "added", "counted", "grpc-nozero", "grpc"}},
		{"parallel", "ns/op", "Parallel/", core},
		{"mixed", "ns/op", "Mixed/trace=", core},
		{"burst", "ns/op", "BurstAfterGC/", core},
		{"small", "ns/op", "Small/", []string{"tarn", "tarn-pool", "shards", "shards-lean", "make", "grpc"}},
		{"chaos", "ns/op", "Chaos/", []string{"tarn", "shards", "shards-lean", "make"}},
		{"writer", "ns/op", "Writer/", []string{"tarn", "bytebufferpool", "make", "grpc-nozero", "grpc"}},
		{"adapt", "ns/op", "Adapt", []string{"tarn", "syncpool", "adapt-grpc", "adapt-httputil", "adapt-arrow", "grpc"}},
		{"record", "ns/op", "Record/", []string{"on", "off"}},
		{"neutral", "cpu-ns/op", "Neutral/", []string{"tarn", "tarn-lent", "grpc", "tonic", "grpc-cpp", "floor", "floor-kept", "floor-echo"}},
		{"client", "cpu-ns/op", "Client/", []string{"tarn", "tarn-lent", "grpc"}},
		{"burst-memory", "after/base", "Burst/", []string{"tarn", "tarn-lent", "grpc"}},
		{"connect", "cpu-ns/op", "ConnectUnary/", []string{"tarn", "nethttp"}},
		{"unary", "calls/s", "Unary/tls=off/", rpc},
		{"unary-p99", "p99-ns", "Unary/tls=off/", rpc},
		{"unary-allocs", "allocs/op", "Unary/tls=off/", rpc},
		{"unary-tls", "calls/s", "Unary/tls=on/", rpc},
		{"stream", "calls/s", "Stream/tls=off/", rpc},
		{"stream-tls", "calls/s", "Stream/tls=on/", rpc},
		{"floor", "calls/s", "Floor/tls=off/", []string{"tarn", "grpc", "floor", "floor-copied", "tarn-stream", "grpc-stream"}},
		{"idle-client", "client-B/conn", "Idle/", rpc},
		{"idle-server", "server-B/conn", "Idle/", rpc},
		{"smb-script", "MB/s", "Script/", smb},
		{"smb-samba", "MB/s", "Samba/", smb},
		{"smb-files", "ns/op", "Files/", smb},
		{"smb-files-cpu", "cpu-ns/op", "Files/", smb},
		{"smb-tree", "ns/op", "Tree/", smb},
		{"smb-tree-cpu", "cpu-ns/op", "Tree/", smb},
		{"smb-delayed", "MB/s", "Delayed/", smb},
		{"smb-mixed", "B/op", "Mixed/mode=", smb},
	}
}

func (t valueTable) markdown(r *results) string {
	benches := r.benches(t)
	if len(benches) == 0 {
		return "Not measured yet.\n"
	}
	peers := slices.DeleteFunc(slices.Clone(t.peers), func(p string) bool {
		return !slices.ContainsFunc(benches, func(b string) bool { _, ok := r.median(b, p, t.unit); return ok })
	})
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |\n|---|%s\n", t.unit, strings.Join(peers, " | "), strings.Repeat("---:|", len(peers)))
	for _, bench := range benches {
		fmt.Fprintf(&b, "| %s |", t.label(bench))
		for _, p := range peers {
			v, ok := r.median(bench, p, t.unit)
			if !ok {
				b.WriteString(" |")
				continue
			}
			b.WriteString(" " + t.format(v) + r.plusMinus(bench, p, t.unit) + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// label is the part of bench's name that differs within the table: "size=100, callers=8".
func (t valueTable) label(bench string) string {
	label := strings.TrimPrefix(bench, t.match)
	if label == "" {
		return bench
	}
	return strings.ReplaceAll(label, "/", ", ")
}

func (t valueTable) format(v float64) string { return format(v, t.unit) }

// benches returns the benchmarks of t, ordered by the numbers in their names.
func (r *results) benches(t valueTable) []string {
	seen := map[string]bool{}
	for k := range r.values {
		if strings.HasPrefix(k.bench, t.match) && k.unit == t.unit {
			seen[k.bench] = true
		}
	}
	var out []string
	for b := range seen {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(padNumbers(a), padNumbers(b)) })
	return out
}

// padNumbers writes the numbers of s with leading zeros, so that they sort as numbers.
func padNumbers(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] >= '0' && s[j] <= '9' {
			j++
		}
		if j > i {
			fmt.Fprintf(&b, "%012s", s[i:j])
			i = j
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}
