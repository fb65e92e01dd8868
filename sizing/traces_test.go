package sizing

import (
	"os"
	"path/filepath"
	"testing"
)

// readTraces reads the committed traces by name.
func readTraces(t testing.TB) map[string]Trace {
	t.Helper()
	files, err := filepath.Glob("testdata/traces/*.trace.gz")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	traces := map[string]Trace{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := ReadTrace(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		traces[filepath.Base(file)] = tr
	}
	return traces
}

// TestTraces: on each recorded program, the ladder found wastes at least a quarter less than one class a
// doubling does with as many classes, and the replay's hits do not suffer for it.
func TestTraces(t *testing.T) {
	for name, tr := range readTraces(t) {
		h := tr.Histogram()
		largest := h.Sizes[len(h.Sizes)-1].Size
		var doubling []int
		for c := 256; ; c *= 2 {
			doubling = append(doubling, c)
			if c >= largest {
				break
			}
		}
		ladder, err := Solve(h, len(doubling))
		if err != nil {
			t.Fatal(err)
		}
		before, err := Simulate(tr, Replay{Classes: doubling, Retain: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		after, err := Simulate(tr, Replay{Classes: ladder, Retain: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d gets; one class a doubling wastes %.1f%% and hits %.1f%%; the best %d classes %.1f%% and %.1f%%",
			name, before.Gets, 100*before.WasteShare(), 100*before.HitRate(), len(ladder), 100*after.WasteShare(), 100*after.HitRate())
		if after.Slab-after.Requested > (before.Slab-before.Requested)/4*3 {
			t.Errorf("%s: wasted bytes fell only from %d to %d", name, before.Slab-before.Requested, after.Slab-after.Requested)
		}
		if after.HitRate() < before.HitRate()-0.05 {
			t.Errorf("%s: hits fell from %.3f to %.3f", name, before.HitRate(), after.HitRate())
		}
	}
}
