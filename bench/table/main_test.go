package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// TestTable: a row a benchmark, a column a peer, medians with ranges, and the first peer's median divided by the column's; no row
// for a unit that a benchmark does not have.
func TestTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.txt")
	text := `goos: linux
BenchmarkGet/size=1/peer=tarn-2 100 10 ns/op 0 B/op
BenchmarkGet/size=1/peer=make-2 100 40 ns/op 64 B/op
BenchmarkGet/size=1/peer=tarn-2 100 20 ns/op 0 B/op
BenchmarkGet/size=1/peer=tarn-2 100 30 ns/op 0 B/op
BenchmarkMix/peer=a/tls=on-2 100 5 peak-MB
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := read(&benchfmt.Files{Paths: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, u := range r.units {
		r.print(&b, u, "tarn")
	}
	for _, want := range []string{
		"sec/op, median (lowest–highest), and tarn's divided by the column's (×); goos: linux\n",
		"| Get/size=1 | 20.00n (10.00n–30.00n) | 40.00n, 0.50× | – |\n",
		"| Get/size=1 | 0.000 | 64.00, 0.00× | – |\n",
		"| Mix/tls=on-2 | – | – | 4.768Mi |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "| Get/"); n != 2 {
		t.Errorf("%d rows of Get, want 2", n)
	}
}
