package main

import (
	"fmt"
	"slices"
	"strings"
)

// call is a row of the table of smb's calls against a server: how fast another client is beside Tarn's, and what the same requests take
// clients that do less than any must.
type call struct {
	what    string
	target  float64 // the other's time divided by Tarn's
	bench   string
	peer    string
	sends   string // benchmark of a client that sends requests made beforehand; empty: none
	handles string // benchmark of one that also does with the replies what every client must
}

func calls() []call {
	moved := func(what, mode, op string, goroutines int, sends, handles string) call {
		bench := fmt.Sprintf("Samba/mode=%s/op=%s/shape=seq-1M/goroutines=%d", mode, op, goroutines)
		return call{what, 1.2, bench, "go-smb2", sends, handles}
	}
	const eight = "Floor/op=%s/size=1024K/depth=8"
	read, write := fmt.Sprintf(eight, "read"), fmt.Sprintf(eight, "write")
	alone := "SealedFloor/op=%s/size=1024K/depth=1"
	return []call{
		moved("reads in the clear, one goroutine", "plain", "read", 1, "", ""),
		moved("writes in the clear, one goroutine", "plain", "write", 1, "", ""),
		moved("encrypted reads, one goroutine", "encrypted", "read", 1, fmt.Sprintf(alone, "read"), ""),
		moved("encrypted writes, one goroutine", "encrypted", "write", 1, fmt.Sprintf(alone, "write"), ""),
		moved("reads in the clear, eight goroutines", "plain", "read", 8, read, read+"/reply=received"),
		moved("writes in the clear, eight goroutines", "plain", "write", 8, write, ""),
		moved("encrypted reads, eight goroutines", "encrypted", "read", 8, "Sealed"+read, "Sealed"+read+"/reply=decrypted"),
		moved("encrypted writes, eight goroutines", "encrypted", "write", 8, "Sealed"+write, ""),
		{"reads in the clear, one goroutine, against libsmb2", 1, "Libsmb2/mode=plain/op=read/shape=seq-1M/goroutines=1", "libsmb2", "", ""},
		{"create, write 4 KiB, close, in the clear", 1.2, "Files/mode=plain/op=create-write-4K", "go-smb2", "Floor/op=create-write-4K", ""},
	}
}

// callTable is a row for each call, from the results of "run.sh calls". Its ratios are medians of those of the turns.
func callTable(r *results) string {
	var b strings.Builder
	b.WriteString("| calls | target | the other's time / Tarn's | Tarn, µs | the other, µs | sends only, µs | handles replies, µs |\n|---|---|---|---|---|---|---|\n")
	for _, c := range calls() {
		ours, theirs := r.values[key{c.bench, "tarn", "ns/op"}], r.values[key{c.bench, c.peer, "ns/op"}]
		var ratios []float64
		for i := range min(len(ours), len(theirs)) {
			ratios = append(ratios, theirs[i]/ours[i])
		}
		fmt.Fprintf(&b, "| %s | ≥ %.1f× | %s | %s | %s | %s | %s |\n", c.what, c.target, verdictOf(ratios, c.target), micros(ours), micros(theirs),
			micros(r.values[key{c.sends, "", "ns/op"}]), micros(r.values[key{c.handles, "", "ns/op"}]))
	}
	return b.String()
}

func verdictOf(ratios []float64, target float64) string {
	if len(ratios) == 0 {
		return "not measured"
	}
	m, word := middle(ratios), "met"
	if m < target {
		word = "**missed**"
	}
	return fmt.Sprintf("%.2f× (%.2f–%.2f), %s", m, slices.Min(ratios), slices.Max(ratios), word)
}

// micros writes the median of nanoseconds and their range in microseconds; nothing where there are none.
func micros(ns []float64) string {
	if len(ns) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f (%.0f–%.0f)", middle(ns)/1e3, slices.Min(ns)/1e3, slices.Max(ns)/1e3)
}
