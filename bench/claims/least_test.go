package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLeast makes the table of the least client from two turns.
func TestLeast(t *testing.T) {
	dir := t.TempDir()
	none, err := readFile(dir, "calls", "least.txt")
	if err != nil || strings.Contains(leastTable(none), "target") {
		t.Errorf("without results: %v", err)
	}
	const text = `BenchmarkSamba/mode=plain/op=read/shape=seq-1M/goroutines=8/peer=go-smb2-2 600 600000 ns/op 400000 cpu-ns/op 500000 server-ns/op 700000 kernel-ns/op
BenchmarkSamba/mode=plain/op=read/shape=seq-1M/goroutines=8/peer=go-smb2-2 600 620000 ns/op 420000 cpu-ns/op 500000 server-ns/op 700000 kernel-ns/op
BenchmarkSamba/mode=plain/op=read/shape=seq-1M/goroutines=8/peer=tarn-2 600 480000 ns/op 300000 cpu-ns/op 500000 server-ns/op 700000 kernel-ns/op
BenchmarkLeast/mode=plain/op=read/size=1024K/depth=8/threads=1-2 600 500000 ns/op 200000 cpu-ns/op 500000 server-ns/op 600000 kernel-ns/op
`
	if err := os.Mkdir(filepath.Join(dir, "calls"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "calls", "least.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := readFile(dir, "calls", "least.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| reads in the clear | go-smb2 | 610 (600–620) |  | 410 (400–420) | 500 (500–500) | 700 (700–700) |\n",
		"| reads in the clear | Tarn | 480 (480–480) | 1.25× (1.25–1.25), met | 300 (300–300) | 500 (500–500) | 700 (700–700) |\n",
		"| reads in the clear | the least, one thread | 500 (500–500) | 1.20 | 200 (200–200) | 500 (500–500) | 600 (600–600) |\n",
		"| reads in the clear | target | 508 | 1.2× | | | |\n",
	} {
		if got := leastTable(r); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
