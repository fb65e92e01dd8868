package tarn

import (
	"io"
	"time"

	"github.com/tarn-go/tarn/internal/pprofile"
)

// WriteProfile writes who holds the buffers of some pools that are out, as a profile that go tool pprof
// reads: for each stack that made references, how many there are and how many bytes of slabs they
// hold, with the pool's name as the label "pool". Where a sample is tracked, figures are scaled up. It
// has what Outstanding has: nothing with CheckOff. An error is w's own.
//
// The profile tarn.buffers of runtime/pprof counts tracked slabs by the stack of their Get; that
// package's profiles have no bytes, scales or labels.
func WriteProfile(w io.Writer, pools ...*Pool) error {
	var samples []pprofile.Sample
	for _, p := range pools {
		for _, h := range Holders(p.Outstanding()) {
			samples = append(samples, pprofile.Sample{
				Stack: trimCore(h.Stack), Values: []int64{int64(h.References), h.Pinned}, Key: "pool", Label: p.Name(),
			})
		}
	}
	types := []pprofile.ValueType{{Type: "references", Unit: "count"}, {Type: "pinned", Unit: "bytes"}}
	return pprofile.Write(w, time.Now(), types, samples)
}

// trimCore cuts the innermost frames that are of the core.
func trimCore(s Stack) Stack {
	for len(s) > 1 {
		for f := range s[:1].frames {
			if !coreFrame(f) {
				return s
			}
		}
		s = s[1:]
	}
	return s
}
