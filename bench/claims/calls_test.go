package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCalls makes the table of calls from two turns, of which one has a floor.
func TestCalls(t *testing.T) {
	dir := t.TempDir()
	none, err := readFile(dir, "calls", "smb.txt")
	if err != nil || !strings.Contains(callTable(none), "not measured") {
		t.Errorf("without results: %v", err)
	}
	const text = `BenchmarkFiles/mode=plain/op=create-write-4K/peer=tarn-2 300 500000 ns/op
BenchmarkFiles/mode=plain/op=create-write-4K/peer=go-smb2-2 300 700000 ns/op
BenchmarkFloor/op=create-write-4K-2 300 450000 ns/op
BenchmarkFiles/mode=plain/op=create-write-4K/peer=tarn-2 300 600000 ns/op
BenchmarkFiles/mode=plain/op=create-write-4K/peer=go-smb2-2 300 600000 ns/op
`
	if err := os.Mkdir(filepath.Join(dir, "calls"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "calls", "smb.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := readFile(dir, "calls", "smb.txt")
	if err != nil {
		t.Fatal(err)
	}
	const want = "| create, write 4 KiB, close, in the clear | ≥ 1.2× | 1.20× (1.00–1.40), met | 550 (500–600) | 650 (600–700) | 450 (450–450) |  |\n"
	if got := callTable(r); !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}
