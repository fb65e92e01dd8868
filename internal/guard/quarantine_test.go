package guard

import (
	"os"
	"testing"
)

// The bound is on pages, which is what small pieces take.
func TestQuarantineCountsPages(t *testing.T) {
	if !Supported {
		t.Log("no page protection on this platform")
		return
	}
	q := NewQuarantine(int64(10 * os.Getpagesize()))
	var lent [][]byte
	for range 10 {
		mem := q.Lend(64)
		if mem == nil {
			t.Fatalf("nothing lent after %d pages of 10", len(lent))
		}
		lent = append(lent, mem)
	}
	if q.Lend(1) != nil {
		t.Error("an eleventh page was lent")
	}
	q.Retire(lent[0], "first")
	if mem := q.Lend(1); mem == nil {
		t.Error("the quarantine made no room")
	} else {
		q.Retire(mem, "second")
	}
	if q.Lend(os.Getpagesize()+1) != nil {
		t.Error("two pages were lent where one is left")
	}
	for _, mem := range lent[1:] {
		q.Retire(mem, nil)
	}
	q.releaseAll()
	if n := process().used.Load(); q.mapped != 0 || n != 0 {
		t.Errorf("%d bytes in %d mappings at the end", q.mapped, n)
	}
}
