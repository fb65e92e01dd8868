package pools

import (
	"go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
)

// A Term is one side of a condition: a value, the length or capacity of one, or a constant.
type Term struct {
	Value ssa.Value
	Of    string // "len", "cap", or "" for the value itself
	Const string // a constant, in Go's notation; "nil"
}

// A Cond is a condition that is true or false on a path. Op is token.EQL or token.LSS, or token.ILLEGAL for the bool
// X.
type Cond struct {
	Op   token.Token
	X, Y Term
}

// term names a value. same gives the value that a load is known to repeat.
func term(v ssa.Value, same func(ssa.Value) ssa.Value) Term {
	switch v := v.(type) {
	case *ssa.Const:
		if v.Value == nil {
			return Term{Const: "nil"}
		}
		return Term{Const: v.Value.ExactString()}
	case *ssa.ChangeType:
		return term(v.X, same)
	case *ssa.Call:
		if b, ok := v.Call.Value.(*ssa.Builtin); ok && (b.Name() == "len" || b.Name() == "cap") {
			return Term{Value: same(v.Call.Args[0]), Of: b.Name()}
		}
	}
	return Term{Value: same(v)}
}

// CondOf is the condition of a bool, and whether the bool is its value or the opposite.
func CondOf(v ssa.Value, same func(ssa.Value) ssa.Value) (c Cond, positive bool) {
	positive = true
	for {
		not, ok := v.(*ssa.UnOp)
		if !ok || not.Op != token.NOT {
			break
		}
		v, positive = not.X, !positive
	}
	op, ok := v.(*ssa.BinOp)
	if !ok {
		return Cond{Op: token.ILLEGAL, X: term(v, same)}, positive
	}
	x, y := term(op.X, same), term(op.Y, same)
	switch op.Op {
	case token.EQL, token.NEQ:
		if x.Const != "" {
			x, y = y, x
		}
		return Cond{token.EQL, x, y}, positive == (op.Op == token.EQL)
	case token.LSS, token.GEQ:
		return Cond{token.LSS, x, y}, positive == (op.Op == token.LSS)
	case token.GTR, token.LEQ:
		return Cond{token.LSS, y, x}, positive == (op.Op == token.GTR)
	}
	return Cond{Op: token.ILLEGAL, X: term(v, same)}, positive
}

// values are the values on which a condition depends.
func (c Cond) values() [2]ssa.Value { return [2]ssa.Value{c.X.Value, c.Y.Value} }

// constant returns the value of a bool, or of "v is nil", that is the same on every path.
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
