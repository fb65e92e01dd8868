package main

import (
	"fmt"
	"slices"
	"strings"
)

// slower is how much worse a ratio must be than it was before it is called slower: below it, runs of
// the same code differ.
const slower = 1.15

// compare lists what got slower between two sets of results: benchmarks whose ratio to a peer of the
// same run is worse than before, beyond the spread of both runs, and those that allocate more in every turn. Ratios
// and not times, so that results of another machine or a busier hour can be compared.
func compare(before, now *results) (slow []string, compared int) {
	for k := range now.values {
		if k.peer != "tarn" {
			continue
		}
		if k.unit == "allocs/op" {
			was, is := before.values[key{k.bench, k.peer, k.unit}], now.values[k]
			if len(was) == 0 {
				continue
			}
			compared++
			if slices.Min(is) > slices.Max(was) { // by no margin: a count does not depend on the machine
				slow = append(slow, fmt.Sprintf("%s: allocations an operation: %.0f, before %.0f", k.bench, middle(is), middle(was)))
			}
			continue
		}
		if k.unit == "ns/op" && now.hasBetter(k.bench) {
			continue
		}
		for _, peer := range now.peersOf(k.bench, k.unit) {
			was, is := before.ratios(k.bench, peer, k.unit), now.ratios(k.bench, peer, k.unit)
			if len(was) == 0 || len(is) == 0 {
				continue
			}
			compared++
			if middle(is) > slower*middle(was) && slices.Min(is) > slices.Max(was) {
				slow = append(slow, fmt.Sprintf("%s: %.3g of %s's %s, before %.3g", k.bench, middle(is), peer, k.unit, middle(was)))
			}
		}
	}
	slices.Sort(slow)
	return slow, compared
}

// hasBetter reports whether a benchmark prints a better measure of its cost than the elapsed time of an operation: a rate, which is
// the same time again, a processor time, which other programs disturb less, or memory, for which the time does not matter. Where a round
// trip is delayed, elapsed time is what round trips add, and processor time does not show them.
func (r *results) hasBetter(bench string) bool {
	delayed := strings.Contains(bench, "/rtt=") && !strings.Contains(bench, "/rtt=0s")
	for k := range r.values {
		if k.bench != bench {
			continue
		}
		if strings.HasSuffix(k.unit, "/s") || strings.HasSuffix(k.unit, "B/conn") || !delayed && strings.HasSuffix(k.unit, "cpu-ns/op") {
			return true
		}
	}
	return false
}

// doubts are the reasons to distrust a comparison, a line each.
func doubts(before, now *results) []string {
	var out []string
	if before.cpu() != now.cpu() {
		out = append(out, fmt.Sprintf("before on %s, now on %s: ratios differ between processors, too", before.cpu(), now.cpu()))
	}
	for k, v := range now.values {
		if k.peer == "tarn" && len(v) < enough {
			return append(out, fmt.Sprintf("fewer than %d turns of %s now: a slow moment counts as much as a slow program", enough, k.bench))
		}
	}
	return out
}

// enough is how many turns are needed to distinguish a slow moment from a slow program.
const enough = 3

// peersOf returns who else was measured in a benchmark.
func (r *results) peersOf(bench, unit string) []string {
	var peers []string
	for k := range r.values {
		if k.bench == bench && k.unit == unit && k.peer != "" && !isNoPeer(k.peer) {
			peers = append(peers, k.peer)
		}
	}
	slices.Sort(peers)
	return peers
}

// ratios returns Tarn's cost divided by a peer's, turn by turn; nil where either was not measured or
// the unit is not a cost. A rate counts as its inverse.
func (r *results) ratios(bench, peer, unit string) []float64 {
	ours, theirs := r.values[key{bench, "tarn", unit}], r.values[key{bench, peer, unit}]
	var out []float64
	for i := range min(len(ours), len(theirs)) {
		a, b := ours[i], theirs[i]
		switch {
		case a <= 0 || b <= 0:
		case unit == "ns/op", strings.HasSuffix(unit, "B/conn"), strings.HasSuffix(unit, "cpu-ns/op"):
			out = append(out, a/b)
		case strings.HasSuffix(unit, "/s"):
			out = append(out, b/a)
		}
	}
	return out
}

// middle is the median of v, which is not empty.
func middle(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
