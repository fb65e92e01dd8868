package pools

import (
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
)

// term names a value for conditions.
func (f *function) term(s *state, v ssa.Value) *conditions.Term {
	switch v := v.(type) {
	case *ssa.ChangeType:
		return f.term(s, v.X)
	case *ssa.Call:
		if b, ok := v.Call.Value.(*ssa.Builtin); ok {
			switch b.Name() {
			case "len":
				return f.table.Of(conditions.Length, f.table.Value(s.original(v.Call.Args[0])))
			case "cap":
				return f.table.Of(conditions.Capacity, f.table.Value(s.original(v.Call.Args[0])))
			}
		}
	}
	return f.table.Value(s.original(v))
}

// test is the condition that a bool tests, and whether the bool is true if that holds.
func (f *function) test(s *state, v ssa.Value) (c *conditions.Condition, positive bool) {
	return f.table.Test(v, func(v ssa.Value) *conditions.Term { return f.term(s, v) })
}

// fixed returns the value of a bool, or of "v is nil", that is the same on every path.
func fixed(v ssa.Value) (value, ok bool) {
	switch v := v.(type) {
	case *ssa.Const:
		if v.Value != nil && v.Value.Kind() == constant.Bool {
			return constant.BoolVal(v.Value), true
		}
	case *ssa.BinOp:
		if v.Op != token.EQL && v.Op != token.NEQ {
			return false, false
		}
		x, y := v.X, v.Y
		if code.IsNil(x) {
			x, y = y, x
		}
		if !code.IsNil(y) {
			return false, false
		}
		switch x := x.(type) {
		case *ssa.MakeInterface, *ssa.Alloc, *ssa.MakeClosure, *ssa.MakeMap, *ssa.MakeChan, *ssa.MakeSlice, *ssa.Function, *ssa.FieldAddr:
			return v.Op == token.NEQ, true
		case *ssa.Const:
			if x.Value == nil {
				return v.Op == token.EQL, true
			}
		case *ssa.UnOp: // a package's error variable
			if g, ok := x.X.(*ssa.Global); ok && code.IsError(g.Type().(*types.Pointer).Elem()) {
				return v.Op == token.NEQ, true
			}
		}
	}
	return false, false
}
