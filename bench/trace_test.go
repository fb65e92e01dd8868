package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/sizing"
)

// traceDir holds what was recorded of real programs: each get and each free, in order.
const traceDir = "../sizing/testdata/traces"

// step is one event of a trace, prepared for replay: a get of size bytes into a slot, or, if size is
// 0, the free of what the slot holds.
type step struct{ slot, size int }

type replay struct {
	steps []step
	slots int
}

// readTrace prepares the trace of the given name. Sizes above 1 MiB are cut to it, so that a bare
// sync.Pool of one size can take part.
func readTrace(tb testing.TB, name string) replay {
	tb.Helper()
	f, err := os.Open(filepath.Join(traceDir, name+".trace.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	t, err := sizing.ReadTrace(f)
	if err != nil {
		tb.Fatal(err)
	}
	var r replay
	var empty []int      // slots
	out := map[int]int{} // slots by get
	gets := 0
	for _, e := range t.Events {
		switch e.Op {
		case sizing.OpGet:
			if len(empty) == 0 {
				empty = append(empty, r.slots)
				r.slots++
			}
			slot := empty[len(empty)-1]
			empty = empty[:len(empty)-1]
			out[gets] = slot
			gets++
			r.steps = append(r.steps, step{slot, min(e.Arg, 1<<20)})
		case sizing.OpFree:
			slot := out[e.Arg]
			delete(out, e.Arg)
			empty = append(empty, slot)
			r.steps = append(r.steps, step{slot: slot})
		}
	}
	for _, slot := range out {
		r.steps = append(r.steps, step{slot: slot})
	}
	return r
}

// run replays the trace repeatedly until next, which is called before each get, returns false.
func (r *replay) run(h holder, next func() bool) {
	held := make([]bool, r.slots)
	for i := 0; ; i++ {
		s := r.steps[i%len(r.steps)]
		if s.size == 0 {
			h.free(s.slot)
			held[s.slot] = false
			continue
		}
		if !next() {
			break
		}
		h.take(s.slot, s.size)[0]++
		held[s.slot] = true
	}
	for slot, is := range held {
		if is {
			h.free(slot)
		}
	}
}
