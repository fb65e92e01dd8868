// Package code answers questions about SSA code that both analyses ask.
package code

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// Operands are the arguments of a call: an interface method's receiver, and the variables that a literal captured,
// included.
func Operands(c *ssa.CallCommon) []ssa.Value {
	if c.IsInvoke() {
		return append([]ssa.Value{c.Value}, c.Args...)
	}
	if mc, ok := c.Value.(*ssa.MakeClosure); ok {
		return append(slices.Clip(c.Args), mc.Bindings...)
	}
	return c.Args
}

// Callee is the function or method that a call names, or the generic one of which it is an instance; nil for a function value.
func Callee(c *ssa.CallCommon) *types.Func {
	if c.IsInvoke() {
		return c.Method.Origin()
	}
	fn := c.StaticCallee()
	if fn == nil {
		return nil
	}
	if o := fn.Origin(); o != nil {
		fn = o
	}
	obj, _ := fn.Object().(*types.Func)
	return obj
}

// IsNil reports whether a value is the constant nil.
func IsNil(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.IsNil()
}

// IsError reports whether a type is error.
func IsError(t types.Type) bool {
	return types.Identical(t, types.Universe.Lookup("error").Type())
}

// IsBool reports whether values of a type are true or false.
func IsBool(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// IsFunc reports whether values of a type are functions.
func IsFunc(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

// Live are the values that each block of a function, or one after it, uses: for each block by its index.
func Live(fn *ssa.Function) []map[ssa.Value]bool {
	live := make([]map[ssa.Value]bool, len(fn.Blocks))
	for i := range live {
		live[i] = map[ssa.Value]bool{}
	}
	for changed := true; changed; {
		changed = false
		for _, b := range slices.Backward(fn.Blocks) {
			in := live[b.Index]
			before := len(in)
			defined := map[ssa.Value]bool{}
			for _, instr := range b.Instrs {
				if v, ok := instr.(ssa.Value); ok {
					defined[v] = true
				}
			}
			for _, succ := range b.Succs {
				for v := range live[succ.Index] {
					if !defined[v] {
						in[v] = true
					}
				}
				at := slices.Index(succ.Preds, b)
				for _, instr := range succ.Instrs {
					phi, ok := instr.(*ssa.Phi)
					if !ok {
						break
					}
					if v := phi.Edges[at]; !defined[v] {
						in[v] = true
					}
				}
			}
			var ops [16]*ssa.Value
			for _, instr := range b.Instrs {
				if _, ok := instr.(*ssa.Phi); ok {
					continue
				}
				for _, op := range instr.Operands(ops[:0]) {
					if *op != nil && !defined[*op] {
						in[*op] = true
					}
				}
			}
			changed = changed || len(in) > before
		}
	}
	return live
}

// Numbers numbers the values of a function. Its zero value has none.
type Numbers struct {
	of   map[ssa.Value]int
	list []ssa.Value
}

// Of is the number of a value.
func (n *Numbers) Of(v ssa.Value) int {
	k, ok := n.of[v]
	if !ok {
		if n.of == nil {
			n.of = map[ssa.Value]int{}
		}
		k = len(n.list)
		n.of[v] = k
		n.list = append(n.list, v)
	}
	return k
}

// Known is the number of a value, if it has one.
func (n *Numbers) Known(v ssa.Value) (k int, ok bool) {
	k, ok = n.of[v]
	return k, ok
}

// Value is the value with a number.
func (n *Numbers) Value(k int) ssa.Value { return n.list[k] }
