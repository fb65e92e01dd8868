package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `# go version go1.0 plan9/mips, 2 processors, 2026-01-01 00:00 UTC
# -bench '^(A|B)$' -benchtime 100ms, 3 turns
cpu: Abacus
BenchmarkSplit/peer=tarn-2    100   10.0 ns/op   0 B/op   0 allocs/op
BenchmarkSplit/peer=tarn-2    100   30.0 ns/op   0 B/op   0 allocs/op
BenchmarkSplit/peer=tarn-2    100   20.0 ns/op   0 B/op   0 allocs/op
BenchmarkSplit/peer=grpc-2    100   600 ns/op    0 B/op   0 allocs/op
BenchmarkSplit/peer=grpc-nozero-2  100  30 ns/op  0 B/op  0 allocs/op
BenchmarkGetFree/size=4096/peer=tarn-2  100  5 ns/op
BenchmarkGetFree/size=256/peer=tarn-2  100  4 ns/op
PASS
`

func read(t *testing.T, text string) (*results, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "core.txt")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := new(results)
	return r, r.read(name)
}

func TestTables(t *testing.T) {
	r, err := read(t, sample)
	if err != nil {
		t.Fatal(err)
	}
	bars := barTable(r, bars())
	for _, want := range []string{
		"| ≥ 10× |  | 30.00×, target met | 20.0 ns | 600 ns | `Split` |",
		"| ≥ 4.5× | ≥ 6× | 1.50×, **missed** | 20.0 ns | 30.0 ns | `Split` |",
		"not measured",
	} {
		if !strings.Contains(bars, want) {
			t.Errorf("no %q in\n%s", want, bars)
		}
	}
	got := valueTable{"split", "ns/op", "Split", []string{"tarn", "mcache", "grpc"}}.markdown(r)
	want := "| ns/op | tarn | grpc |\n|---|---:|---:|\n| Split | 20.0 ns ± 50% | 600 ns |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	sizes := valueTable{"getfree", "ns/op", "GetFree/", []string{"tarn"}}.markdown(r)
	if strings.Index(sizes, "size=256") > strings.Index(sizes, "size=4096") {
		t.Errorf("256 comes after 4096:\n%s", sizes)
	}
	if m := r.machine(); m != "Abacus\n\n- core: go1.0 plan9/mips, 2 processors, 2026-01-01 00:00 UTC, 3 turns\n" {
		t.Errorf("machine %q", m)
	}
}

// Results that do not name the processor have no empty line in its place.
func TestMachineWithoutName(t *testing.T) {
	r, err := read(t, strings.ReplaceAll(sample, "cpu: Abacus\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	if m := r.machine(); !strings.HasPrefix(m, "- core: go1.0") {
		t.Errorf("machine %q", m)
	}
}

// A file that was made on another processor says so.
func TestMachineOfEachFile(t *testing.T) {
	r := &results{}
	for _, cpu := range []string{"", "Abacus", "Quipu"} {
		name := filepath.Join(t.TempDir(), "x.txt")
		text := "# go version go1.0 plan9/mips, 2 processors, 2026-01-01 00:00 UTC\n"
		if cpu != "" {
			text += "cpu: " + cpu + "\n"
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.read(name); err != nil {
			t.Fatal(err)
		}
	}
	const made = "- x: go1.0 plan9/mips, 2 processors, 2026-01-01 00:00 UTC"
	if m, want := r.machine(), "Abacus\n\n"+made+"\n"+made+"\n"+made+", on Quipu\n"; m != want {
		t.Errorf("got %q, want %q", m, want)
	}
}

// Turns that were added at other times are distinguished by their times.
func TestMachineNamesEveryTime(t *testing.T) {
	const head = "# go version go1.0 plan9/mips, 2 processors, "
	r, err := read(t, head+"2026-01-01 00:00 UTC\n# -bench 'x', 1 turns\n"+head+"2026-01-02 12:30 UTC\n# -bench 'x', 2 turns\nBenchmarkX 1 1 ns/op\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "core: go1.0 plan9/mips, 2 processors, 2026-01-01 00:00 UTC; 2026-01-02 12:30 UTC, 2 turns\n"
	if m := r.machine(); !strings.HasSuffix(m, want) {
		t.Errorf("got %q, want %q at its end", m, want)
	}
}

// The attacks stay in the order in which they were mounted, and are judged by the medians of all turns.
func TestAttackTables(t *testing.T) {
	r, err := read(t, `BenchmarkAttack/rapid_reset,_500_a_second/peer=grpc 1 30.2 peak-MB 1000 cpu-ms 9 healthy-calls 3 failed-calls
BenchmarkAttack/rapid_reset,_500_a_second/peer=rpc 1 68.4 peak-MB 100 cpu-ms 10 healthy-calls 0 failed-calls
BenchmarkAttack/flood/peer=rpc 1 20.0 peak-MB 90 cpu-ms 10 healthy-calls 0 failed-calls
BenchmarkAttack/RST_STREAM_of_closed_streams/peer=rpc 1 70.0 peak-MB 80 cpu-ms 10 healthy-calls 0 failed-calls
BenchmarkAttack/rapid_reset,_500_a_second/peer=rpc 1 20.0 peak-MB 100 cpu-ms 10 healthy-calls 1 failed-calls
BenchmarkAttack/rapid_reset,_500_a_second/peer=rpc 1 68.0 peak-MB 120 cpu-ms 10 healthy-calls 0 failed-calls
`)
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		attackTable(r, "peak-MB"): "|\n| rapid reset, 500 a second | 30 | 68 (20–68) | – | – | – | – |\n| flood | – | 20 | – | – | – | – |\n| RST_STREAM of closed streams | – | 70 | – | – | – | – |\n",
		attackTable(r, "cpu-ms"):  "|\n| rapid reset, 500 a second | 1000 | 100 (100–120) | – | – | – | – |\n| flood | – | 90 | – | – | – | – |\n| RST_STREAM of closed streams | – | 80 | – | – | – | – |\n",
		attackVerdict(r): "Of 3 turns, on Tarn's servers: 50 healthy calls, of which 1 failed; " +
			"above the memory of grpc-go's server and 64 MiB: rapid reset, 500 a second on rpc (68 MB), RST_STREAM of closed streams on rpc (70 MB).\n",
	} {
		if !strings.HasSuffix(got, want) {
			t.Errorf("got\n%s\nwant at its end\n%s", got, want)
		}
	}
}

func TestLosses(t *testing.T) {
	r, err := read(t, `BenchmarkSplit/peer=tarn-2  1  30 ns/op
BenchmarkSplit/peer=grpc-2  1  20 ns/op
BenchmarkSplit/peer=syncpool-2  1  29 ns/op
BenchmarkUnary/tls=off/size=1/peer=tarn-2  1  100 calls/s
BenchmarkUnary/tls=off/size=1/peer=grpc-2  1  300 calls/s
BenchmarkUnary/tls=off/size=1/peer=connect-2  1  10 calls/s
BenchmarkUnary/tls=off/size=2/peer=tarn-2  1  400 calls/s
BenchmarkUnary/tls=off/size=2/peer=grpc-2  1  300 calls/s
`)
	if err != nil {
		t.Fatal(err)
	}
	got := lossTable(r)
	for _, want := range []string{
		"| Split | ns/op | 30.0 ns | grpc 1.5× |\n",
		"| Unary, tls=off, size=1 | calls/s | 100/s | grpc 3.0× |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, got)
	}
}

// TestFloors puts what a program reaches that does less beside what Tarn does, and does not list it as ahead of Tarn.
func TestFloors(t *testing.T) {
	r, err := read(t, `BenchmarkSplit/peer=tarn-2         100  20 ns/op
BenchmarkSplit/peer=tarn-2         100  25 ns/op
BenchmarkSplit/peer=added-2        100  15 ns/op
BenchmarkSplit/peer=added-2        100  16 ns/op
BenchmarkSplit/peer=grpc-nozero-2  100  60 ns/op
BenchmarkSplit/peer=grpc-nozero-2  100  64 ns/op
`)
	if err != nil {
		t.Fatal(err)
	}
	table := floorTable(r, "")
	for _, want := range []string{"| Split, against a pool that does not zero | ≥ 4.5× | 4.00× (4.00–4.00) | 2.76× (2.56–3.00) |", "not measured | not measured"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if lost := lossTable(r); strings.Contains(lost, "added") {
		t.Errorf("a floor is ahead of Tarn:\n%s", lost)
	}
}

// TestDoubt: a row says when the median of the turns' ratios has another verdict than the ratio of the medians.
func TestDoubt(t *testing.T) {
	r, err := read(t, `BenchmarkSplit/peer=tarn-2  1  10 ns/op
BenchmarkSplit/peer=grpc-2  1  99 ns/op
BenchmarkSplit/peer=tarn-2  1  20 ns/op
BenchmarkSplit/peer=grpc-2  1  220 ns/op
BenchmarkSplit/peer=tarn-2  1  20 ns/op
BenchmarkSplit/peer=grpc-2  1  199 ns/op
`)
	if err != nil {
		t.Fatal(err)
	}
	c := bar{"x", "Split", "", "grpc", 9.93, none, timesFaster}
	const want = "| x | ≥ 9.93× |  | 9.95× (9.90–11.00), target met | 20.0 ns | 199 ns | `Split` |\n"
	if got := c.row(r); got != want {
		t.Errorf("got %q", got)
	}
	c.first = 9.951
	if got := c.row(r); !strings.Contains(got, "9.95× (9.90–11.00), **missed** |") {
		t.Errorf("got %q", got)
	}
	r.values[key{"Split", "grpc", "ns/op"}] = []float64{99, 150, 220} // ratios of 9.9, 7.5 and 11; of the medians 7.5
	c.first = 9
	if got := c.row(r); !strings.Contains(got, "7.50× (7.50–11.00), **missed** (median of the turns' ratios 9.90×, target met) |") {
		t.Errorf("got %q", got)
	}
}

func TestBadResults(t *testing.T) {
	for _, line := range []string{"BenchmarkX 1\n", "BenchmarkX 1 fast ns/op\n"} {
		if _, err := read(t, line); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}

func TestFill(t *testing.T) {
	const page = "a\n<!-- x -->\nold\n<!-- end -->\nb\n"
	got, err := fill(page, map[string]string{"x": "new\n"})
	if want := "a\n<!-- x -->\nnew\n<!-- end -->\nb\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"nothing", "<!-- x -->\nno end", page + "<!-- y -->\n<!-- end -->\n"} {
		if _, err := fill(bad, map[string]string{"x": ""}); err == nil {
			t.Errorf("%q was filled", bad)
		}
	}
}

// TestPages: each page with tables has those that the results give.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]map[string]string{}
	for _, dir := range []string{"../results", "../results/epyc"} {
		res, err := readAll(dir)
		if err != nil {
			t.Fatal(err)
		}
		if tables[dir], err = allTables(dir, res); err != nil {
			t.Fatal(err)
		}
	}
	filled := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !marker.Match(text) {
			continue
		}
		filled++
		dir := "../results"
		if filepath.Base(page) == "second-machine.md" {
			dir = "../results/epyc"
		}
		got, err := fill(string(text), tables[dir])
		if err != nil {
			t.Errorf("%s: %v", page, err)
		} else if got != string(text) {
			t.Errorf("%s does not have the tables of %s: go run ./claims -results %s -w %s", page, dir, dir, page)
		}
	}
	if filled < 7 {
		t.Errorf("%d pages with tables", filled)
	}
}

// TestFirstChart: the README's chart has a row for each of its table's, a win, a loss and what was not measured.
func TestFirstChart(t *testing.T) {
	r, err := read(t, `BenchmarkSplit/peer=tarn-2  1  10 ns/op
BenchmarkSplit/peer=tarn-2  1  20 ns/op
BenchmarkSplit/peer=grpc-2  1  100 ns/op
BenchmarkSplit/peer=grpc-2  1  100 ns/op
BenchmarkGetFree/size=32768/peer=tarn-2  1  20 ns/op
BenchmarkGetFree/size=32768/peer=syncpool-2  1  10 ns/op
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layouts() {
		chart := firstChart(r, l)
		for want, n := range map[string]int{`class="win"`: 1, `class="loss"`: 1, "6.67×": 1, "0.50×": 1, "not measured": len(firsts()) - 2} {
			if got := strings.Count(chart, want); got != n {
				t.Errorf("%s: %q is there %d times, want %d, in\n%s", l.file, want, got, n, chart)
			}
		}
	}
	page := filepath.Join(t.TempDir(), "README.md")
	if err := os.MkdirAll(filepath.Join(filepath.Dir(page), "docs", "images"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("![chart]("+chartFile+")\n<!-- first -->\n<!-- end -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(filepath.Join("..", "results"), page); err != nil {
		t.Fatal(err)
	}
	for _, l := range layouts() {
		if _, err := os.Stat(filepath.Join(filepath.Dir(page), l.file)); err != nil {
			t.Error(err)
		}
	}
}
