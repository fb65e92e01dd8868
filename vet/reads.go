package vet

// This file handles values through which bytes are read, such as a bytes.Reader: using one is no mistake when the bytes
// have ended, but reading from it is.

import (
	"go/token"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// readsFrom are functions and methods that read the bytes to which an argument leads, and which argument that is. The
// receiver is argument 0.
var readsFrom = map[string]int{
	"bufio.Peek": 0, "bufio.Read": 0, "bufio.ReadByte": 0, "bufio.ReadBytes": 0, "bufio.ReadLine": 0, "bufio.ReadRune": 0,
	"bufio.ReadSlice": 0, "bufio.ReadString": 0, "bufio.Scan": 0, "bufio.WriteTo": 0,
	"bytes.Next": 0, "bytes.Read": 0, "bytes.ReadAt": 0, "bytes.ReadByte": 0, "bytes.ReadBytes": 0, "bytes.ReadRune": 0,
	"bytes.ReadString": 0, "bytes.String": 0, "bytes.WriteTo": 0,
	"encoding/json.Decode": 0, "encoding/json.Token": 0,
	"io.Copy": 1, "io.CopyBuffer": 1, "io.CopyN": 1, "io.Read": 0, "io.ReadAll": 0, "io.ReadAt": 0, "io.ReadAtLeast": 0,
	"io.ReadByte": 0, "io.ReadFull": 0, "io.WriteTo": 0,
	"net.Read": 0, "net.WriteTo": 0, // of net.Buffers
}

// resets are methods that replace the bytes to which their receiver leads by those of their argument.
var resets = map[string]bool{"bytes.Reset": true, "bufio.Reset": true}

// readThrough handles a call that reads the bytes to which an argument leads, or replaces them.
func (f *function) readThrough(s *state, c *ssa.CallCommon, pos token.Pos) {
	name, vars := stdlib.Name(code.Callee(c)), code.Operands(c)
	if resets[name] {
		f.dropViews(s, ofViews(f.reach(s, vars[0])))
		return
	}
	i, ok := readsFrom[name]
	if !ok || i >= len(vars) {
		return
	}
	var b binding
	for _, v := range f.reach(s, vars[i]) {
		b.views = append(b.views, view{of: v.of, changes: v.changes})
	}
	f.look(s, b, pos, "read")
}
