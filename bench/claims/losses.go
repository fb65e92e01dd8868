package main

import (
	"fmt"
	"slices"
	"strings"
)

// margin is the ratio from which a peer's better value is listed as a loss: a lower one would
// list differences between runs of the same code as well.
const margin = 1.1

// isNoPeer reports whether a contestant is one that no program would use instead of Tarn: itself, one of its adapters, or a
// program that shows what the least is that a pool or a server must do.
func isNoPeer(name string) bool {
	return slices.ContainsFunc([]string{"tarn", "adapt", "floor", "added", "counted"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// lossTable lists every case of the page's tables in which a peer has a better value than Tarn, so that no
// such case is left out.
func lossTable(r *results) string {
	var b strings.Builder
	b.WriteString("| benchmark | metric | Tarn | ahead of it |\n|---|---|---|---|\n")
	for _, t := range valueTables() {
		for _, bench := range r.benches(t) {
			own, ok := r.median(bench, "tarn", t.unit)
			if !ok {
				continue
			}
			if ahead := t.aheadOf(r, bench, own); len(ahead) > 0 {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", strings.ReplaceAll(bench, "/", ", "), t.unit, t.format(own), strings.Join(ahead, ", "))
			}
		}
	}
	return b.String()
}

// aheadOf names the peers with better values than own, and the ratios.
func (t valueTable) aheadOf(r *results, bench string, own float64) []string {
	var ahead []string
	for _, p := range t.peers {
		v, ok := r.median(bench, p, t.unit)
		if !ok || isNoPeer(p) {
			continue
		}
		times := own / v // lower is better
		if t.unit == "calls/s" || t.unit == "MB/s" {
			times = v / own
		}
		if times >= margin {
			ahead = append(ahead, fmt.Sprintf("%s %.1f×", p, times))
		}
	}
	return ahead
}
