package main

import (
	"fmt"
	"strings"
)

// leastTarget is how many times as fast as go-smb2 package smb was to be.
const leastTarget = 1.2

// leastClient is a client of the table.
type leastClient struct{ name, bench, peer string }

// times are the ratios of go-smb2's times to the client's in the same turns; Tarn's is compared with the target.
func (c leastClient) times(theirs, took []float64) string {
	var ratios []float64
	for i := range min(len(theirs), len(took)) {
		ratios = append(ratios, theirs[i]/took[i])
	}
	switch c.peer {
	case "go-smb2":
		return ""
	case "tarn":
		return verdictOf(ratios, leastTarget)
	}
	return medianAndRange(ratios, "")
}

// leastTable compares, from the results of "run.sh least", calls of 1 MiB to a server, eight in flight, with those of a client that does
// the least that a client must: the elapsed time, which the target is for, and the processor time of client, server and kernel.
func leastTable(r *results) string {
	var b strings.Builder
	b.WriteString("| calls | client | elapsed, µs | go-smb2's / it (range) | client, µs | smbd, µs | of both the kernel, µs |\n|---|---|---|---|---|---|---|\n")
	for _, row := range []struct{ what, mode, op string }{
		{"reads in the clear", "plain", "read"},
		{"writes in the clear", "plain", "write"},
		{"encrypted reads", "encrypted", "read"},
		{"encrypted writes", "encrypted", "write"},
	} {
		samba := fmt.Sprintf("Samba/mode=%s/op=%s/shape=seq-1M/goroutines=8", row.mode, row.op)
		least := fmt.Sprintf("Least/mode=%s/op=%s/size=1024K/depth=8/threads=%%d", row.mode, row.op)
		theirs := r.values[key{samba, "go-smb2", "ns/op"}]
		for _, c := range []leastClient{
			{"go-smb2", samba, "go-smb2"},
			{"Tarn", samba, "tarn"},
			{"the least, one thread", fmt.Sprintf(least, 1), ""},
			{"the least, two threads", fmt.Sprintf(least, 2), ""},
		} {
			took := r.values[key{c.bench, c.peer, "ns/op"}]
			fmt.Fprintf(&b, "| %s | %s | %s | %s", row.what, c.name, micros(took), c.times(theirs, took))
			for _, unit := range []string{"cpu-ns/op", "server-ns/op", "kernel-ns/op"} {
				fmt.Fprintf(&b, " | %s", micros(r.values[key{c.bench, c.peer, unit}]))
			}
			b.WriteString(" |\n")
		}
		if len(theirs) > 0 {
			fmt.Fprintf(&b, "| %s | target | %.0f | %.1f× | | | |\n", row.what, middle(theirs)/leastTarget/1e3, leastTarget)
		}
	}
	return b.String()
}
