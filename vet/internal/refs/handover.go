package refs

// This file handles references that leave the function without a call: through channels and into maps.

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// throughChannel is the reason in life.by of a reference that was sent.
const throughChannel = "\x00send"

// send handles a send statement: it gives a reference away, or those of a struct by which the receiver cannot tell when
// to free them, until the goroutines have synchronized and it may have been returned.
func (f *function) send(s *state, v ssa.Value, pos token.Pos) {
	f.signalled(s)
	b := f.reaching(s, v)
	f.look(s, binding{refs: b.refs}, pos, "sent")
	f.keep(s, b, custody{by: goroutine, pos: pos, in: "sent"})
	if k := f.kinds.Of(v.Type()); !b.part && (k == kinds.Handle || k == kinds.Composite && !f.kinds.Tells(v.Type())) {
		f.give(s, b, pos, throughChannel)
		f.mayReturn(s, b)
	}
	f.giveAway(s, b)
	f.escapePointer(s, v)
}

// lookup reads an element of a map: the reference that was found there before, or the only bytes that this function put
// into it.
func (f *function) lookup(s *state, v *ssa.Lookup) {
	delete(s.Vals, flow.Of(v))
	of, ok := v.X.Type().Underlying().(*types.Map)
	if !ok {
		return
	}
	if _, inner := of.Elem().Underlying().(*types.Map); !inner {
		clear(s.mapped) // it may be taken out
	}
	if v.CommaOk {
		return
	}
	if b, ok := s.Mem[f.inMap(v.X, v.Index)]; ok && f.kinds.Of(v.Type()) == kinds.Handle {
		s.Vals[flow.Of(v)] = b
	} else if b := f.refsOf(s, v.X); len(ofViews(b.views)) == 1 && kinds.IsBytes(v.Type()) {
		s.Vals[flow.Of(v)] = binding{views: []view{{of: b.views[0].of, changes: b.views[0].changes}}}
	}
}

// intoMap is an assignment to an element of a map.
func (f *function) intoMap(s *state, m *ssa.MapUpdate) {
	key, value := f.reaching(s, m.Key), f.reaching(s, m.Value)
	if made, ok := m.Map.(*ssa.MakeMap); ok {
		// The reference is still this function's, unless the map itself is stored.
		at := flow.Of(made)
		s.Vals[at] = s.Vals[at].join(binding{views: inside(value.views)})
		value.views = nil
	}
	f.forgetElements(s, nil)
	f.replaced(s, m, value)
	in := custody{by: memory, pos: m.Pos(), in: "stored in a map"}
	if p, ok := f.placeOf(m.Map); ok {
		if in.at = p; p.Local() {
			value.views = nil
		}
	}
	f.escape(s, value, in)
	f.escape(s, key, in)
	f.escapePointer(s, m.Value)
}

// replaced reports a reference that this function stored in a map and overwrites with another one, when no code can
// have removed it in between.
func (f *function) replaced(s *state, m *ssa.MapUpdate, value binding) {
	if _, inner := m.Value.Type().Underlying().(*types.Map); inner {
		clear(s.mapped)
	}
	in := f.inMap(m.Map, m.Key)
	if old := s.mapped[in]; old != nil {
		f.report(s, report.Leak, old, m.Pos(), "overwritten")
	}
	delete(s.mapped, in)
	if len(value.refs) == 1 && !value.part && value.refs[0].kind == kinds.Handle && s.lives[value.refs[0]].st == held && s.lives[value.refs[0]].key == nil {
		s.mapped[in] = value.refs[0]
	}
}

// whenTestEnds is the reason in life.by of a reference whose Free was passed to Cleanup of a testing.TB.
const whenTestEnds = "\x00cleanup"

// cleanedUp records that a method value or function literal frees the reference that it captured when the test
// ends: until then it may be used, but not freed. It returns false when the literal does anything else with it.
func (f *function) cleanedUp(s *state, mc *ssa.MakeClosure, b ssa.Value, refs binding) bool {
	fn := mc.Fn.(*ssa.Function)
	if isMethodValue(fn) {
		if f.kinds.Of(b.Type()) != kinds.Handle || fn.Object() == nil || fn.Object().Name() != "Free" {
			return false
		}
	} else {
		if p := f.anon[fn].Param(len(fn.Params)); len(mc.Bindings) != 1 || p.Effect != contracts.Drop || p.When != contracts.Always || !assignedOnce(b) {
			return false
		}
	}
	if len(refs.refs) != 1 || refs.part || refs.refs[0].kind != kinds.Handle {
		return false
	}
	for _, u := range *mc.Referrers() {
		call, ok := u.(*ssa.Call)
		if !ok || !stdlib.IsCleanup(code.Callee(&call.Call)) {
			return false
		}
	}
	r := refs.refs[0]
	if l := s.lives[r]; l.st == held && l.key == nil {
		s.lives[r] = life{st: lent, pos: mc.Pos(), by: whenTestEnds, with: l.with}
		return true
	}
	return false
}

// assignedOnce reports whether a variable that a function literal captured is assigned once, when it is declared.
func assignedOnce(v ssa.Value) bool {
	stores := 0
	for _, u := range *v.Referrers() {
		if st, ok := u.(*ssa.Store); ok && st.Addr == v {
			stores++
		}
	}
	return stores == 1
}

// withError reports references that are returned together with an error that is not nil, or that nothing has tested since
// a call returned it: callers free nothing if it is not nil (rule 4). Functions that fill a container may have put nothing
// in when they return an error, so a container is reported in the first case only.
func (f *function) withError(s *state, ret *ssa.Return, results []binding) {
	sig := f.fn.Signature
	n := sig.Results().Len()
	if n < 2 || !code.IsError(sig.Results().At(n-1).Type()) {
		return
	}
	if _, ok := contracts.OK(sig); ok {
		return // it says whether there is a reference
	}
	null, known := f.valueOf(s, ret.Results[n-1])
	if known && null || !known && !fromCall(ret.Results[n-1], ret) {
		return
	}
	how := "error"
	if !known {
		how = "perhaps error"
	}
	for i, b := range results {
		if b.part || f.kinds.Of(sig.Results().At(i).Type()) == kinds.Untracked {
			continue
		}
		for _, r := range b.refs {
			if l := s.lives[r]; l.st == held && l.key == nil && (known || l.failure == nil && r.kind != kinds.Container && r.err == 0) {
				f.report(s, report.Leak, r, ret.Pos(), how)
				s.forget(r)
			}
		}
	}
}

// fromCall reports whether an error that a function returns is what a call returned.
func fromCall(v ssa.Value, ret *ssa.Return) bool {
	switch v := v.(type) {
	case *ssa.Call:
		return true
	case *ssa.Extract:
		_, ok := v.Tuple.(*ssa.Call)
		return ok
	case *ssa.UnOp: // in a function with deferred calls, a return statement stores its results in variables first
		for _, instr := range slices.Backward(ret.Block().Instrs) {
			if st, ok := instr.(*ssa.Store); ok && st.Addr == v.X {
				_, load := st.Val.(*ssa.UnOp)
				return !load && fromCall(st.Val, ret)
			}
		}
	}
	return false
}
