package refs

// This file says which calls write to bytes that are passed to them.

import (
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// writes reports whether a call writes to argument i, bytes.
func (c *Checker) writes(call *ssa.CallCommon, i int) bool {
	if b, ok := call.Value.(*ssa.Builtin); ok {
		return i == 0 && (b.Name() == "copy" || b.Name() == "clear")
	}
	if con := c.contractOf(call); con != nil && i < 64 && con.Writes&(1<<i) != 0 {
		return true
	}
	fn := code.Callee(call)
	return stdlib.Writes(fn, i) || fn != nil && fn.Name() == "Read" && call.IsInvoke() && i == 1
}

// written reports whether a function writes to a parameter, bytes, whenever it is called and there are bytes enough.
func (c *Checker) written(fn *ssa.Function, p *ssa.Parameter) bool {
	for _, b := range fn.Blocks {
		if !unconditional(b, p) {
			continue
		}
		for _, instr := range b.Instrs {
			switch instr := instr.(type) {
			case *ssa.Store:
				if ia, ok := instr.Addr.(*ssa.IndexAddr); ok && partOf(ia.X, p) {
					return true
				}
			case *ssa.Call:
				for i, a := range code.Operands(&instr.Call) {
					if kinds.IsBytes(a.Type()) && partOf(a, p) && c.writes(&instr.Call, i) {
						return true
					}
				}
			}
		}
	}
	return false
}

// partOf reports whether a value is a parameter or a part of it.
func partOf(v ssa.Value, p *ssa.Parameter) bool {
	for {
		switch u := v.(type) {
		case *ssa.Slice:
			v = u.X
		case *ssa.ChangeType:
			v = u.X
		default:
			return v == ssa.Value(p)
		}
	}
}

// unconditional reports whether only the conditions of loops, and comparisons of a parameter's length, decide if a
// block runs.
func unconditional(b *ssa.BasicBlock, p *ssa.Parameter) bool {
	for at := b.Idom(); at != nil; at = at.Idom() {
		test, ok := at.Instrs[len(at.Instrs)-1].(*ssa.If)
		if ok && !isLoop(at) && !comparesLength(test.Cond, p) {
			return false
		}
	}
	return true
}

// isLoop reports whether a block is the head of a loop.
func isLoop(b *ssa.BasicBlock) bool {
	for _, p := range b.Preds {
		if b.Dominates(p) {
			return true
		}
	}
	return false
}

// comparesLength reports whether a condition compares the length of a parameter, or of a part of it.
func comparesLength(v ssa.Value, p *ssa.Parameter) bool {
	op, ok := v.(*ssa.BinOp)
	if !ok {
		return false
	}
	x, y := lengthOf(op.X), lengthOf(op.Y)
	return x != nil && partOf(x, p) || y != nil && partOf(y, p)
}
