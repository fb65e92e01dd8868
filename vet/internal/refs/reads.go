package refs

// This file handles values through which bytes are read, such as a bytes.Reader: using one is no mistake when the bytes
// have ended, but reading from it is.

import (
	"go/token"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// readThrough handles a call that reads the bytes to which an argument leads, or replaces them.
func (f *function) readThrough(s *state, c *ssa.CallCommon, pos token.Pos) {
	fn, vars := code.Callee(c), code.Operands(c)
	if stdlib.Resets(fn) {
		f.dropViews(s, ofViews(f.reach(s, vars[0])))
		return
	}
	i, ok := stdlib.ReadsFrom(fn)
	if !ok || i >= len(vars) {
		return
	}
	var b binding
	for _, v := range f.reach(s, vars[i]) {
		b.views = append(b.views, view{of: v.of, changes: v.changes})
	}
	f.look(s, b, pos, "read")
}
