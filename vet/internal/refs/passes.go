package refs

// This file infers the effects of a function on arguments that are bytes or functions, which are no references but
// may lead to bytes of one: whether it stores them beyond the call, writes them (writes.go), or returns them.

import (
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
)

// passes adds to a contract which parameters are kept, which are written, and which are returned or reachable from a
// result.
func (c *Checker) passes(fn *ssa.Function, con *contracts.Contract) *contracts.Contract {
	if len(fn.Blocks) == 0 {
		return con
	}
	grow := func() {
		if con == nil {
			con = new(contracts.Contract)
		}
		for len(con.Params) < len(fn.Params) {
			con.Params = append(con.Params, contracts.Param{})
		}
		for len(con.Results) < fn.Signature.Results().Len() {
			con.Results = append(con.Results, contracts.Result{})
		}
	}
	follows := con != nil && !con.Recovers && !con.NoReturn
	for i, p := range fn.Params {
		if follows && con.Param(i).Effect == contracts.Unknown && c.mayHold(p.Type()) {
			if to := c.handsOn(fn, p); to.Effect != contracts.Unknown {
				grow()
				con.Params[i] = to
			}
		}
		if (kinds.IsBytes(p.Type()) || code.IsFunc(p.Type())) && stays(fn, p) {
			grow()
			con.Params[i] = contracts.Param{Effect: contracts.Keep}
		}
		if kinds.IsBytes(p.Type()) && i < 64 && c.written(fn, p) {
			grow()
			con.Writes |= 1 << i
		}
	}
	for i, v := range contracts.Arguments(fn.Signature) {
		if !kinds.IsBytes(v.Type()) && !code.IsFunc(v.Type()) {
			continue
		}
		for j := range fn.Signature.Results().Len() {
			if c.kinds.Holds(fn.Signature.Results().At(j).Type()) {
				continue
			}
			if yes, in := returns(fn, fn.Params[i], j); yes {
				grow()
				con.Results[j] = contracts.Result{Source: contracts.View, Of: int8(i), Inside: in}
			}
		}
	}
	return con
}

// stays reports whether a function stores a parameter in a field of another one's struct, or of a package
// variable, and stores nothing else there.
func stays(fn *ssa.Function, p *ssa.Parameter) bool {
	for _, u := range *p.Referrers() {
		st, ok := u.(*ssa.Store)
		if !ok || st.Val != ssa.Value(p) {
			continue
		}
		switch at := st.Addr.(type) {
		case *ssa.Global:
			return storesTo(fn, func(addr ssa.Value) bool { return addr == ssa.Value(at) }) == 1
		case *ssa.FieldAddr:
			if _, ok := at.X.(*ssa.Parameter); !ok {
				continue
			}
			same := func(addr ssa.Value) bool {
				o, ok := addr.(*ssa.FieldAddr)
				return ok && o.Field == at.Field && types.Identical(o.X.Type(), at.X.Type())
			}
			return storesTo(fn, same) == 1
		}
	}
	return false
}

func storesTo(fn *ssa.Function, match func(addr ssa.Value) bool) (n int) {
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			if st, ok := instr.(*ssa.Store); ok && match(st.Addr) {
				n++
			}
		}
	}
	return n
}

// returns reports whether result j is p or leads to it, unless it is nil.
func returns(fn *ssa.Function, p *ssa.Parameter, j int) (yes, inside bool) {
	for _, b := range fn.Blocks {
		ret, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
		if !ok {
			continue
		}
		v := ret.Results[j]
		if k, ok := v.(*ssa.Const); ok && k.Value == nil {
			continue
		}
		leads, in := leadsTo(v, p, 0)
		if !leads {
			return false, false
		}
		yes, inside = true, inside || in
	}
	return yes, inside
}

// leadsTo reports whether v is p, a part of it, or a value that this function made with p in it.
func leadsTo(v ssa.Value, p *ssa.Parameter, depth int) (yes, inside bool) {
	if depth > 8 {
		return false, false
	}
	switch v := v.(type) {
	case *ssa.Parameter:
		return v == p, false
	case *ssa.Slice:
		return leadsTo(v.X, p, depth+1)
	case *ssa.ChangeType:
		return leadsTo(v.X, p, depth+1)
	case *ssa.MakeInterface:
		yes, _ = leadsTo(v.X, p, depth+1)
		return yes, true
	case *ssa.UnOp:
		if a, ok := v.X.(*ssa.Alloc); ok {
			return leadsTo(a, p, depth+1)
		}
	case *ssa.Alloc:
		for _, u := range *v.Referrers() {
			switch u := u.(type) {
			case *ssa.FieldAddr:
				for _, w := range *u.Referrers() {
					if st, ok := w.(*ssa.Store); ok && st.Addr == ssa.Value(u) {
						if in, _ := leadsTo(st.Val, p, depth+1); in {
							yes = true
						}
					}
				}
			case ssa.CallInstruction:
				return false, false // another value may be stored there
			}
		}
		return yes, true
	}
	return false, false
}
