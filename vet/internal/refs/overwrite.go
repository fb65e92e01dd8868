package refs

// This file finds references that a store overwrites.

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// overwrite checks the value that a store replaces.
func (f *function) overwrite(s *state, p places.Place, st *ssa.Store, b binding) {
	zero := false
	k := f.kinds.Of(st.Val.Type())
	if k == kinds.Composite && (isZeroValue(st.Val) || literal(st.Val) != nil) {
		f.reset(s, p, st)
		if isZeroValue(st.Val) {
			f.takenOut(s, p, st)
			return
		}
	}
	if k == kinds.Handle || k == kinds.Container {
		zero = isZeroValue(st.Val)
	}
	switch p.Root.(type) {
	case *ssa.Parameter, *ssa.FreeVar:
		if isYield(f.fn) {
			zero = false // it may belong to a return statement of the enclosing function
		}
		if zero {
			f.content(s, p, st.Val.Type())
		}
	default:
		zero = false // two calls may return one pointer
	}
	old, ok := s.Mem[p]
	f.blanks(s, st, old)
	if !ok || old.part {
		return
	}
	for _, r := range old.refs {
		l := s.lives[r]
		if b.has(r) || l.st != foreign || r.kind == kinds.Composite || r.param >= 0 {
			continue
		}
		if p.Local() && !(l.alive && p.InElement()) {
			continue
		}
		if f.inUse(s, r, p, st) {
			// Taken out of the place: the function that took it frees it.
			l.st = held
			s.lives[r] = l
		} else if zero && !p.IsElement() || l.alive && k == kinds.Handle {
			f.report(s, report.Leak, r, st.Pos(), "overwritten")
		}
	}
}

// blanks records whether a store replaces what had length 0 by the zero Buffer: nothing changes for the caller then.
func (f *function) blanks(s *state, st *ssa.Store, old binding) {
	blank := isZeroValue(st.Val) && !old.part && len(old.refs) == 1 && s.lives[old.refs[0]].by == byLength
	if before, ok := f.blank[st]; ok {
		blank = blank && before
	}
	f.blank[st] = blank
}

// pooled reports a container that is put into a sync.Pool with what it holds: the garbage collector drops it there.
func (f *function) pooled(s *state, c *ssa.CallCommon, fn *types.Func, pos token.Pos) {
	if fn == nil || fn.FullName() != "(*sync.Pool).Put" || len(c.Args) != 2 {
		return
	}
	put, ok := c.Args[1].(*ssa.MakeInterface)
	if !ok || f.kinds.Pointee(put.X.Type()) != kinds.Container {
		return
	}
	for _, r := range f.refsOf(s, put.X).refs {
		if l := s.lives[r]; r.param < 0 && l.key == nil && l.changes == 0 && (l.st == held || l.st == foreign) {
			f.report(s, report.Leak, r, pos, "pooled")
			s.forget(r)
		}
	}
}

// takenOut records that the function owns a struct with a method Free that it has taken out of a field of another one, and of which it left
// the zero value there.
func (f *function) takenOut(s *state, p places.Place, st *ssa.Store) {
	if _, param := p.Root.(*ssa.Parameter); !param || p.Whole() || !f.kinds.Unit(st.Val.Type()) || p.IsElement() {
		return
	}
	old, ok := s.Mem[p]
	if !ok || old.part || len(old.refs) != 1 {
		return
	}
	r := old.refs[0]
	if l := s.lives[r]; l.st == foreign && l.key == nil && r.param < 0 && f.inUse(s, r, p, st) {
		l.st = held
		s.lives[r] = l
	}
}

// reset reports references in a receiver's struct that is overwritten by a method without parameters. Methods with parameters may
// initialize a struct that has none yet.
func (f *function) reset(s *state, p places.Place, st *ssa.Store) {
	recv, ok := p.Root.(*ssa.Parameter)
	if !ok || !p.Whole() || len(f.fn.Params) != 1 || f.fn.Signature.Recv() == nil || f.inTarn() || recv != f.fn.Params[0] {
		return
	}
	if f.leaks(recv) || storesTo(f.fn, func(addr ssa.Value) bool { return addr == ssa.Value(recv) }) > 1 {
		return // it is made available for reuse, when it holds nothing any more; or was empty
	}
	for _, leaf := range f.kinds.Leaves(st.Val.Type()) {
		if sets(literal(st.Val), leaf) {
			continue
		}
		at := p.Join(leaf)
		b := f.content(s, at, at.Type())
		if b.part {
			continue
		}
		for _, r := range b.refs {
			if l := s.lives[r]; l.st != foreign || r.param >= 0 || r.kind == kinds.Composite {
				continue
			}
			if f.inUse(s, r, at, st) {
				l := s.lives[r]
				l.st = held
				s.lives[r] = l
			} else {
				f.report(s, report.Leak, r, st.Pos(), "overwritten")
			}
		}
	}
}

// literal is the variable of a composite literal whose value v is, or nil.
func literal(v ssa.Value) *ssa.Alloc {
	load, ok := v.(*ssa.UnOp)
	if !ok || load.Op != token.MUL {
		return nil
	}
	if a, ok := load.X.(*ssa.Alloc); ok && a.Comment == "complit" {
		return a
	}
	return nil
}

// sets reports whether a literal gives a value to the field of a struct in which a leaf is.
func sets(lit *ssa.Alloc, leaf places.Path) bool {
	steps := leaf.Steps()
	if lit == nil || len(steps) == 0 {
		return false
	}
	for _, u := range *lit.Referrers() {
		if at, ok := u.(*ssa.FieldAddr); ok && int64(at.Field) == steps[0].N {
			return true
		}
	}
	return false
}

// isZeroValue reports whether a value is the zero value of its type, as a constant or as an empty composite
// literal.
func isZeroValue(v ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.Const:
		return v.Value == nil
	case *ssa.UnOp:
		a, ok := v.X.(*ssa.Alloc)
		if !ok || v.Op != token.MUL || a.Comment != "complit" {
			return false
		}
		for _, u := range *a.Referrers() {
			if u != ssa.Instruction(v) {
				return false
			}
		}
		return true
	}
	return false
}

// inUse reports whether a value that was loaded from p is used after the store.
func (f *function) inUse(s *state, r *ref, p places.Place, st *ssa.Store) bool {
	b := st.Block()
	after := map[ssa.Value]bool{}
	var ops [16]*ssa.Value
	for _, instr := range b.Instrs[slices.Index(b.Instrs, ssa.Instruction(st))+1:] {
		for _, op := range instr.Operands(ops[:0]) {
			if *op != nil {
				after[*op] = true
			}
		}
	}
	for _, succ := range b.Succs {
		for v := range f.live[succ.Index] {
			after[v] = true
		}
		at := slices.Index(succ.Preds, b)
		for _, instr := range succ.Instrs {
			if phi, ok := instr.(*ssa.Phi); ok {
				after[phi.Edges[at]] = true
			}
		}
	}
	for v, c := range s.Vals {
		if c.has(r) && after[v.Value] {
			return true
		}
	}
	for q, c := range s.Mem {
		if q != p && c.has(r) {
			return true
		}
	}
	for _, d := range s.Defers {
		for _, c := range d.Args {
			if c.has(r) {
				return true
			}
		}
	}
	return false
}
