package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// readLeast reads the results of "run.sh least" from the directory calls in dir. Without them there are none.
func readLeast(dir string) (*results, error) {
	res, name := new(results), filepath.Join(dir, "calls", "least.txt")
	if _, err := os.Stat(name); os.IsNotExist(err) {
		return res, nil
	}
	return res, res.read(name)
}

// leastTable compares calls of 1 MiB to a server, eight in flight, with those of a client that does the least that a client must: the
// elapsed time, which the target is for, and the processor time of client, server and kernel.
func leastTable(r *results) string {
	var b strings.Builder
	b.WriteString("| calls | client | elapsed, µs | client, µs | smbd, µs | of both the kernel, µs |\n|---|---|---|---|---|---|\n")
	for _, row := range []struct{ what, mode, op string }{
		{"reads in the clear", "plain", "read"},
		{"writes in the clear", "plain", "write"},
		{"encrypted reads", "encrypted", "read"},
		{"encrypted writes", "encrypted", "write"},
	} {
		samba := fmt.Sprintf("Samba/mode=%s/op=%s/shape=seq-1M/goroutines=8", row.mode, row.op)
		least := fmt.Sprintf("Least/mode=%s/op=%s/size=1024K/depth=8/threads=%%d", row.mode, row.op)
		for _, c := range []struct{ name, bench, peer string }{
			{"go-smb2", samba, "go-smb2"},
			{"Tarn", samba, "tarn"},
			{"the least, one thread", fmt.Sprintf(least, 1), ""},
			{"the least, two threads", fmt.Sprintf(least, 2), ""},
		} {
			fmt.Fprintf(&b, "| %s | %s", row.what, c.name)
			for _, unit := range []string{"ns/op", "cpu-ns/op", "server-ns/op", "kernel-ns/op"} {
				fmt.Fprintf(&b, " | %s", micros(r.values[key{c.bench, c.peer, unit}]))
			}
			b.WriteString(" |\n")
		}
		if theirs := r.values[key{samba, "go-smb2", "ns/op"}]; len(theirs) > 0 {
			fmt.Fprintf(&b, "| %s | target (go-smb2 / 1.2) | %.0f | | | |\n", row.what, middle(theirs)/1.2/1e3)
		}
	}
	return b.String()
}
