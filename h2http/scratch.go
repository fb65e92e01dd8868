package h2http

import (
	"strconv"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/workers"
)

// maxIdleWorkers is how many goroutines wait for further requests at most.
const maxIdleWorkers = 1024

// scratch is memory that a worker lends to the exchange it is on.
type scratch struct {
	fields []h2.Field // header lists on their way out
	chain  tarn.Chain // content on its way out; empty between writes
	length cachedLength
}

// scratchOf returns the scratch memory of w.
func scratchOf(w *workers.Worker[*exchange]) *scratch {
	s, ok := w.Scratch.(*scratch)
	if !ok {
		s = new(scratch)
		w.Scratch = s
	}
	return s
}

// maxScratch is how many fields are kept.
const maxScratch = 64

// tidy drops what fields refer to when an exchange has ended.
func (s *scratch) tidy() {
	if cap(s.fields) > maxScratch {
		s.fields = nil
		return
	}
	clear(s.fields[:cap(s.fields)])
	s.fields = s.fields[:0]
}

// cachedLength turns a length into text without an allocation when it is the same as
// before.
type cachedLength struct {
	n int
	s string
}

func (c *cachedLength) text(n int) string {
	if n != c.n || c.s == "" {
		c.n, c.s = n, strconv.Itoa(n)
	}
	return c.s
}
