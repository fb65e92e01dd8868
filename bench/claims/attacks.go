package main

import (
	"fmt"
	"slices"
	"strings"
)

// attackColumns are the servers of results/attack.txt; the memory of the others is compared with that of the first.
func attackColumns() []struct{ peer, title string } {
	return []struct{ peer, title string }{
		{"grpc", "grpc-go"}, {"rpc", "rpc"}, {"rpc-tls", "rpc, TLS"}, {"rpc-wrapped", "rpc, wrapped"}, {"h2http", "h2http"}, {"h2http-tls", "h2http, TLS"},
	}
}

// attackMemory is the peak of the resident set in MB that passes even where grpc-go's server needs less.
const attackMemory = 64 << 20 / 1e6

// attackName is the name of an attack from that of its benchmark, where "_" stands for a space. Between two capitals it is
// part of the protocol's name for a frame, as in RST_STREAM.
func attackName(bench string) string {
	capital := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	name := []byte(strings.TrimPrefix(bench, "Attack/"))
	for i, c := range name {
		if c == '_' && (i == 0 || i == len(name)-1 || !capital(name[i-1]) || !capital(name[i+1])) {
			name[i] = ' '
		}
	}
	return string(name)
}

// attackTable lists a unit of all attacks in the order in which they were mounted: medians, and where they differ the lowest and
// the highest.
func attackTable(r *results, unit string) string {
	attacks := r.attacks()
	if len(attacks) == 0 {
		return "Not measured yet.\n"
	}
	var b strings.Builder
	b.WriteString("| attack |")
	for _, c := range attackColumns() {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---:|", len(attackColumns())))
	for _, a := range attacks {
		fmt.Fprintf(&b, "| %s |", attackName(a))
		for _, c := range attackColumns() {
			m, ok := r.median(a, c.peer, unit)
			if !ok {
				b.WriteString(" – |")
				continue
			}
			v := r.values[key{a, c.peer, unit}]
			low, high := fmt.Sprintf("%.0f", slices.Min(v)), fmt.Sprintf("%.0f", slices.Max(v))
			if fmt.Fprintf(&b, " %.0f", m); low != high {
				fmt.Fprintf(&b, " (%s–%s)", low, high)
			}
			b.WriteString(" |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// attackVerdict says how often the attacks were mounted, what became of the healthy calls, and which attacks do not pass.
func attackVerdict(r *results) string {
	attacks := r.attacks()
	if len(attacks) == 0 {
		return "Not measured yet.\n"
	}
	turns, calls, failed := 0, 0.0, 0.0
	var lost []string
	for _, a := range attacks {
		bound, _ := r.median(a, "grpc", "peak-MB")
		bound = max(bound, attackMemory)
		for _, c := range attackColumns()[1:] {
			for i, v := range r.values[key{a, c.peer, "healthy-calls"}] {
				turns = max(turns, i+1)
				calls += v
			}
			for _, v := range r.values[key{a, c.peer, "failed-calls"}] {
				failed += v
			}
			if m, ok := r.median(a, c.peer, "peak-MB"); ok && m > bound {
				lost = append(lost, fmt.Sprintf("%s on %s (%.0f MB)", attackName(a), c.title, m))
			}
		}
	}
	b := fmt.Sprintf("Of %d turns, on Tarn's servers: %.0f healthy calls, of which %.0f failed; ", turns, calls, failed)
	if len(lost) == 0 {
		return b + "no median above the memory of grpc-go's server or 64 MiB.\n"
	}
	return b + "above the memory of grpc-go's server and 64 MiB: " + strings.Join(lost, ", ") + ".\n"
}

// attacks are the names of the attacks in their order.
func (r *results) attacks() []string {
	var names []string
	for _, bench := range r.order {
		if strings.HasPrefix(bench, "Attack/") {
			names = append(names, bench)
		}
	}
	return names
}
