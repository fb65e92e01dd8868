package main

import (
	"fmt"
	"strings"
)

// first is a row of the README's table: a comparison in words that a newcomer has.
type first struct {
	what string
	mark string // the same, short, beside its bar in the chart
	side string // which process was measured
	bar  bar
}

func firsts() []first {
	return []first{
		// The clients are grpc-go's, as they are after a server has been moved; by h2load the ratio is higher.
		{"a gRPC server's processor time a call, 100 B, beside grpc-go", "processor time a call, 100 B: grpc-go", "server only, client on grpc-go",
			bar{"", "Client/size=100", "cpu-ns/op", "grpc", 0, none, timesFaster}},
		{"the same, beside tonic (Rust)", "processor time a call, 100 B: tonic (Rust)", "server only, client h2load", bar{"", "Neutral/size=100", "cpu-ns/op", "tonic", 0, none, timesFaster}},
		{"16 KiB, beside tonic", "processor time a call, 16 KiB: tonic", "server only, client h2load", bar{"", "Neutral/size=16384", "cpu-ns/op", "tonic", 0, none, timesFaster}},
		{"gRPC calls a second, 100 B, 64 callers, beside grpc-go", "calls a second, 100 B: grpc-go", "both ends in one process",
			bar{"", "Unary/tls=off/size=100/callers=64", "calls/s", "grpc", 0, none, timesMore}},
		{"memory of an idle gRPC connection, beside grpc-go", "memory of an idle connection: grpc-go", "server only", bar{"", "Idle/tls=off", "server-B/conn", "grpc", 0, none, timesTheirs}},
		{"taking, splitting and freeing 32 KiB, beside grpc-go's pool", "take, split, free 32 KiB: grpc-go's pool", "one goroutine", bar{"", "Split", "", "grpc", 0, none, timesFaster}},
		{"taking and freeing 32 KiB, beside a bare `sync.Pool`", "take, free 32 KiB: bare sync.Pool", "one goroutine", bar{"", "GetFree/size=32768", "", "syncpool", 0, none, timesTheirs}},
		{"reading a file from Samba, signed, 1 MiB at a time, beside go-smb2", "read from Samba, signed: go-smb2", "client only, one goroutine",
			bar{"", "Samba/mode=signed/op=read/shape=seq-1M/goroutines=1", "MB/s", "go-smb2", 0, none, timesMore}},
	}
}

// firstTable is the README's table.
func firstTable(r *results) string {
	var b strings.Builder
	b.WriteString("| what | Tarn | the other | ratio (range over the turns) | measured on |\n|---|---:|---:|---|---|\n")
	for _, f := range firsts() {
		unit := f.bar.unit
		if unit == "" {
			unit = "ns/op"
		}
		ours, ok := r.median(f.bar.bench, "tarn", unit)
		theirs, okPeer := r.median(f.bar.bench, f.bar.peer, unit)
		if !ok || !okPeer {
			fmt.Fprintf(&b, "| %s | | | not measured | %s |\n", f.what, f.side)
			continue
		}
		ratio, word := theirs/ours, "less"
		switch f.bar.sense {
		case timesMore:
			ratio, word = ours/theirs, "more"
		case timesTheirs:
			ratio, word = ours/theirs, "of it"
		}
		switch two := fmt.Sprintf("%.2f", ratio); {
		case f.bar.sense == timesTheirs:
		case two == "1.00":
			word = "of it" // neither less nor more
		case ratio < 1:
			word = "behind"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | **%.2f×** %s%s | %s |\n", f.what, format(ours, unit), format(theirs, unit),
			ratio, word, f.bar.spread(r, unit), f.side)
	}
	return b.String()
}
