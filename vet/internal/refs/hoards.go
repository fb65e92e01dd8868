package refs

// This file finds references that a function puts into a slice, an array or a struct of its own and that nothing frees. Which elements are
// freed is not tracked, so that a function which frees one of them, or gives one away, is not reported.

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// hoard records that the function puts its own reference into an element of a slice or array that it made.
func (f *function) hoard(addr ssa.Value, pos token.Pos) {
	root := madeHere(addr)
	if root == nil || f.quiet {
		return
	}
	if before, ok := f.hoards[root]; !ok || pos < before {
		f.hoards[root] = pos
	}
}

// onlyStored reports whether a store is the only use of a call's result that keeps it or ends it: nothing frees it under another name.
func (f *function) onlyStored(st *ssa.Store) bool {
	switch st.Val.(type) {
	case *ssa.Call, *ssa.Extract:
		return f.kinds.Of(st.Val.Type()) != kinds.Untracked && !f.releasedBut(st.Val, st, 0)
	}
	return false
}

// madeHere is the variable or slice of this function in an element of which an address is; nil if there is none.
func madeHere(addr ssa.Value) ssa.Value {
	element := false
	for {
		switch a := addr.(type) {
		case *ssa.FieldAddr:
			addr = a.X
		case *ssa.IndexAddr:
			addr, element = a.X, true
		case *ssa.Slice:
			addr = a.X
		case *ssa.MakeSlice:
			return a
		case *ssa.Alloc:
			if !element || a.Comment == "varargs" {
				return nil
			}
			return a
		default:
			return nil
		}
	}
}

// unfreedHoards reports the slices and arrays of which nothing frees an element.
func (f *function) unfreedHoards() {
	for root, pos := range f.hoards {
		if f.told[root] || f.released(root) {
			continue
		}
		name := or(places.RootText(root), "a slice")
		f.reports.Emit(analysis.Diagnostic{
			Pos: pos, Category: string(report.Leak),
			Message: fmt.Sprintf("leak: %s takes references here, and nothing in this function frees its elements or gives them away; range over it and free each", name),
		}, root.Pos())
	}
}

// within reports whether a value that was loaded from an element is stored in another element of the same slice.
func within(v ssa.Value, st *ssa.Store) bool {
	load, ok := v.(*ssa.UnOp)
	if !ok || load.Op != token.MUL {
		return false
	}
	from, ok := load.X.(*ssa.IndexAddr)
	if !ok {
		return false
	}
	to, ok := st.Addr.(*ssa.IndexAddr)
	if !ok {
		return false
	}
	roots := map[ssa.Value]bool{}
	slicesOf(from.X, roots)
	others := map[ssa.Value]bool{}
	slicesOf(to.X, others)
	for v := range others {
		if roots[v] {
			return true
		}
	}
	return false
}

// ownField reports whether a part of the slice in a field is stored in the field itself.
func ownField(v ssa.Value, st *ssa.Store) bool {
	part, ok := v.(*ssa.Slice)
	if !ok {
		return false
	}
	load, ok := part.X.(*ssa.UnOp)
	if !ok || load.Op != token.MUL {
		return false
	}
	from, ok := load.X.(*ssa.FieldAddr)
	if !ok {
		return false
	}
	to, ok := st.Addr.(*ssa.FieldAddr)
	return ok && to.Field == from.Field && to.X == from.X
}

// slicesOf adds the slices of which a slice is a part or a continuation.
func slicesOf(v ssa.Value, list map[ssa.Value]bool) {
	if list[v] {
		return
	}
	list[v] = true
	switch v := v.(type) {
	case *ssa.Phi:
		for _, e := range v.Edges {
			if !code.IsNil(e) {
				slicesOf(e, list)
			}
		}
	case *ssa.Slice:
		slicesOf(v.X, list)
	case *ssa.UnOp:
		if v.Op == token.MUL {
			slicesOf(v.X, list)
		}
	case *ssa.Call:
		if b, ok := v.Call.Value.(*ssa.Builtin); ok && b.Name() == "append" && !code.IsNil(v.Call.Args[0]) {
			slicesOf(v.Call.Args[0], list)
		}
	}
}

// unended reports the variables of types with a method Free into which references are put, and which nothing in the function frees or
// passes on. What methods take out is not tracked: a type that has a method Free is to be freed.
func (c *Checker) unended(fns []*ssa.Function) {
	f := &function{Checker: c}
	for _, fn := range fns {
		if c.panics[fn] {
			continue
		}
		for _, b := range fn.Blocks {
			for _, instr := range b.Instrs {
				made, ok := instr.(*ssa.Alloc)
				if !ok || c.told[made] || !c.kinds.Unit(made.Type().Underlying().(*types.Pointer).Elem()) {
					continue
				}
				if l := (local{f: f}); l.follow(made) && l.filled.IsValid() {
					c.told[made] = true
					c.reports.Emit(analysis.Diagnostic{
						Pos: l.filled, Category: string(report.Leak),
						Message: fmt.Sprintf("leak: %s takes ownership of a reference here, and nothing in this function frees %[1]s or passes it on; call its Free on every path, or defer it",
							or(places.RootText(made), "the "+kinds.NamedOf(made.Type()).Obj().Name())),
					}, made.Pos())
				}
			}
		}
	}
}

// A local is what is done with a variable of a type with a method Free.
type local struct {
	f      *function
	filled token.Pos // a method took ownership of a reference
}

// follow returns false if the variable is freed, or goes where it cannot be followed.
func (l *local) follow(v *ssa.Alloc) bool {
	for _, u := range *v.Referrers() {
		switch u := u.(type) {
		case *ssa.Call:
			fn := u.Call.StaticCallee()
			if fn == nil || fn.Signature.Recv() == nil || len(u.Call.Args) == 0 || u.Call.Args[0] != ssa.Value(v) || endings[fn.Name()] || slices.Contains(u.Call.Args[1:], ssa.Value(v)) {
				return false
			}
			if leadsBack(fn, v.Type()) || hides(fn, 0) {
				return false
			}
			con := l.f.contractOf(&u.Call)
			switch e := con.Param(0).Effect; e {
			case contracts.Unknown, contracts.Borrow, contracts.Ignore, contracts.Fill, contracts.FillLeaf:
			default:
				return false // it ends what the variable has
			}
			for i, a := range u.Call.Args[1:] {
				if p := con.Param(i + 1); p.Effect == contracts.Take && p.When == contracts.Always && l.f.kinds.Of(a.Type()) == kinds.Handle && !l.filled.IsValid() {
					l.filled = u.Pos()
				}
			}
		case *ssa.FieldAddr:
			if l.f.released(u) {
				return false
			}
		case *ssa.DebugRef:
		default:
			return false
		}
	}
	return true
}

// leadsBack reports whether a method returns something by which its receiver could be freed.
func leadsBack(fn *ssa.Function, recv types.Type) bool {
	for v := range fn.Signature.Results().Variables() {
		if types.Identical(v.Type(), recv) || types.IsInterface(v.Type()) && !code.IsError(v.Type()) || code.IsFunc(v.Type()) {
			return true
		}
	}
	return false
}

// hides reports whether a method, or one that it calls, stores its receiver, lets a literal capture it, or passes it to something unknown.
func hides(fn *ssa.Function, depth int) bool {
	if len(fn.Blocks) == 0 || len(fn.Params) == 0 {
		return false // of another package
	}
	for _, u := range *fn.Params[0].Referrers() {
		switch u := u.(type) {
		case *ssa.FieldAddr, *ssa.Field, *ssa.DebugRef, *ssa.UnOp, *ssa.BinOp, *ssa.If:
		case *ssa.Store:
			if u.Val == ssa.Value(fn.Params[0]) {
				return true
			}
		case ssa.CallInstruction:
			to := u.Common().StaticCallee()
			if to == nil || depth > 6 || u.Common().Args[0] != ssa.Value(fn.Params[0]) || hides(to, depth+1) {
				return true
			}
		default:
			return true
		}
	}
	return false
}
