package refs

// This file handles the results of a call, and the conditions on which they hold.

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// outcome names the condition on a result of a call.
func (f *function) outcome(v ssa.Value, w contracts.When, at int8) (c *conditions.Condition, ok bool) {
	last := resultOf(v, at)
	if last == nil {
		return nil, false
	}
	if w == contracts.IfNil {
		return f.isNil(last), true
	}
	return f.table.True(f.term(last)), true
}

// ownError names the condition that an error in a struct that a call returned, or a channel delivered, is nil.
func (f *function) ownError(v ssa.Value, index int, at int8) *conditions.Condition {
	return f.table.Nil(f.table.Part(v, places.PathOf(places.Step{Kind: places.Field, N: int64(index)}, places.Step{Kind: places.Field, N: int64(at)})))
}

// storeError copies what is known of the error in such a struct to the variable in which it is stored.
func (f *function) storeError(s *state, p places.Place, b binding) {
	if len(b.refs) != 1 || b.part || b.refs[0].err == 0 {
		return
	}
	f.forgetLoads(s, p)
	r := b.refs[0]
	if key := f.ownError(r.site, r.index, int8(r.err-1)); s.lives[r].key == key || s.lives[r].failure == key {
		s.alias[f.table.Nil(f.table.Load(p.With(places.Step{Kind: places.Field, N: int64(r.err - 1)})))] = key
	}
}

// resultOf is the value of a call's result; nil when it is ignored.
func resultOf(v ssa.Value, at int8) ssa.Value {
	call, ok := v.(*ssa.Call)
	if !ok {
		return nil
	}
	if call.Call.Signature().Results().Len() == 1 {
		return call
	}
	if e := extracted(call, int(at)); !ignored(e) {
		return e
	}
	return nil // assigned to _
}

// results binds the results of a call.
func (f *function) results(s *state, c *ssa.CallCommon, con *contracts.Contract, fn *types.Func, sig *types.Signature, args []binding, v ssa.Value, pos token.Pos) {
	n := sig.Results().Len()
	for i := range n {
		at := flow.Slot{Value: v, Index: i}
		if n == 1 {
			at.Index = -1
		}
		typ := sig.Results().At(i).Type()
		res := con.Result(i)
		if f.kinds.Of(typ) == kinds.Untracked && res.Source == contracts.UnknownResult {
			delete(s.Vals, at)
			f.passViews(s, fn, typ, args, at)
			continue
		}
		switch res.Source {
		case contracts.Maybe:
			if f.kinds.Of(typ) != kinds.Untracked {
				l := life{st: foreign}
				if f.neverReleased(v, at.Index) {
					l.st = held // if there is a reference, it is lost
				}
				f.create(s, v, at.Index, typ, pos, l)
			}
		case contracts.Owned:
			l := life{st: held}
			if f.none(s, fn, args, c) {
				l.st = void
			}
			if res.When == contracts.IfOwnNil && l.st == held {
				l.key, l.alt = f.ownError(v, at.Index, res.At), void
				s.unlearn(l.key)
			} else if res.When != contracts.Always {
				if key, ok := f.outcome(v, res.When, res.At); ok && l.st == held {
					l.key, l.alt = key, void
					s.unlearn(key)
				} else if res.When == contracts.IfNil && n > 1 {
					// The error is ignored, so it is taken to be nil.
					l.key = nil
				}
			}
			if k := f.kinds.Of(typ); k == kinds.Untracked {
				delete(s.Vals, at)
				continue
			}
			if out := contracts.Outcomes(sig); len(out) > 0 && out[0].When == contracts.IfNil && l.st == held {
				if key, ok := f.outcome(v, contracts.IfNil, out[0].At); ok && key != l.key {
					l.failure = key
					s.unlearn(key)
				}
			}
			r := f.create(s, v, at.Index, typ, pos, l)
			if res.When == contracts.IfOwnNil {
				r.err = int(res.At) + 1
			}
			f.moveViews(s, c, fn, args, r)
			if res.Shared && len(args) > int(res.Of) {
				f.share(s, r, args[res.Of])
			}
		case contracts.Same:
			f.same(s, c, fn, res, args, at, typ, pos, v)
		case contracts.View:
			delete(s.Vals, at)
			var b binding
			for _, r := range args[res.Of].refs {
				if l, ok := s.lives[r]; ok && l.st != unknown && !args[res.Of].part {
					b.views = append(b.views, view{of: r, changes: l.changes})
				}
			}
			b.views = append(b.views, args[res.Of].views...)
			if res.Inside {
				b.views = inside(b.views)
			}
			if !b.empty() {
				s.Vals[at] = b
			}
		case contracts.Lent:
			f.lend(s, c, v, at, code.Operands(c)[res.Of], pos)
		case contracts.Cleaned:
			f.create(s, v, at.Index, typ, pos, life{st: lent, pos: pos, by: whenTestEnds})
		case contracts.Holder, contracts.Holding:
			delete(s.Vals, at)
			r := f.refAt(refKey{v: v, from: fromHolder}, kinds.Container, pos)
			if l := s.lives[r]; l.st == held {
				f.report(s, report.Leak, r, pos, "loop")
			}
			s.lives[r] = life{st: void}
			if res.Source == contracts.Holding {
				s.lives[r] = life{st: held}
			}
			s.Mem[places.Of(v)] = binding{refs: []*ref{r}}
		default:
			delete(s.Vals, at)
		}
	}
}

// neverReleased reports whether nothing in the function frees a result or gives it away.
func (f *function) neverReleased(v ssa.Value, index int) bool {
	if index >= 0 {
		v = extracted(v, index)
		if v == nil {
			return true // ignored
		}
	}
	return !f.released(v)
}

// none reports whether a primitive returns the zero Buffer: Get(0), or a method of the zero Buffer.
func (f *function) none(s *state, fn *types.Func, args []binding, c *ssa.CallCommon) bool {
	if fn == nil || contracts.Primitive(f.kinds, fn) == nil {
		return false
	}
	vars := code.Operands(c)
	if fn.Name() == "Get" && len(vars) == 2 {
		if isZero(vars[1]) {
			return true
		}
		value, ok := s.learned(f.table.Equal(f.term(vars[1]), f.table.Int(0)))
		return ok && value
	}
	if len(vars) == 0 || f.kinds.Of(vars[0].Type()) != kinds.Handle {
		return false
	}
	if k, ok := vars[0].(*ssa.Const); ok && k.Value == nil {
		return true
	}
	b := args[0]
	return len(b.refs) == 1 && s.lives[b.refs[0]].st == void
}

// passViews binds the bytes that a function returns of bytes in its arguments.
func (f *function) passViews(s *state, fn *types.Func, typ types.Type, args []binding, at flow.Slot) {
	if len(args) == 0 || len(args[0].views) == 0 || !carries(typ) {
		return
	}
	switch {
	case stdlib.Part(fn) && kinds.IsBytes(typ):
		s.Vals[at] = binding{views: args[0].views}
	case stdlib.Holds(fn):
		s.Vals[at] = binding{views: inside(args[0].views)}
	}
}

// moveViews transfers views of a handle that was taken to the one that is returned for it: the same memory.
// Where two are returned, or possibly other memory, the views are not tracked any further.
func (f *function) moveViews(s *state, c *ssa.CallCommon, fn *types.Func, args []binding, r *ref) {
	if r.kind != kinds.Handle {
		return
	}
	for i, a := range code.Operands(c) {
		if f.kinds.Of(a.Type()) != kinds.Handle || len(args[i].refs) != 1 || s.lives[args[i].refs[0]].st != given {
			continue
		}
		old := args[i].refs[0]
		var now *ref
		if fn != nil && (fn.Name() == "Narrow" || fn.Name() == "Join" || strings.HasPrefix(fn.Name(), "Grow")) {
			now = r
		}
		s.Change(func(b binding) (binding, bool) { return b.reviewed(old, now) })
	}
}

func ignored(v ssa.Value) bool { return v == nil || len(*v.Referrers()) == 0 }

// dropViews stops tracking views of refs.
func (f *function) dropViews(s *state, refs []*ref) {
	for _, r := range refs {
		s.Change(func(b binding) (binding, bool) { return b.reviewed(r, nil) })
	}
}

// reviewed is b with views of one ref changed to views of another, or removed if that is nil. It returns false if b has none.
func (b binding) reviewed(from, to *ref) (binding, bool) {
	if !slices.ContainsFunc(b.views, func(v view) bool { return v.of == from }) {
		return b, false
	}
	views := []view{}
	for _, v := range b.views {
		switch {
		case v.of != from:
			views = append(views, v)
		case to != nil:
			views = append(views, view{of: to, inside: v.inside})
		}
	}
	b.views = views
	return b, true
}

// share records that r shares the memory of another reference.
func (f *function) share(s *state, r *ref, with binding) {
	for _, o := range with.refs {
		l := s.lives[o]
		if l.st == unknown || o.kind != kinds.Handle {
			continue
		}
		if !slices.Contains(l.with, r.id) { // else r is of an earlier iteration of a loop, and the states must not differ
			l.with = append(slices.Clip(l.with), r.id)
			s.lives[o] = l
		}
		n := s.lives[r]
		n.with = append(slices.Clip(n.with), o.id)
		s.lives[r] = n
	}
}

// same binds the result of Join and similar methods: the same reference under a new name if the call
// succeeded.
func (f *function) same(s *state, c *ssa.CallCommon, fn *types.Func, res contracts.Result, args []binding, at flow.Slot, typ types.Type, pos token.Pos, v ssa.Value) {
	delete(s.Vals, at)
	b := args[res.Of]
	key, ok := f.outcome(v, res.When, res.At)
	if len(b.refs) != 1 || b.part {
		f.giveAway(s, b)
		return
	}
	old := b.refs[0]
	l := s.lives[old]
	if !ok {
		if l.st == given && l.pos == pos {
			f.moveViews(s, c, fn, args, f.create(s, v, at.Index, typ, pos, life{st: held}))
		}
		return
	}
	if l.key != key || l.alt != held {
		if l.st != unknown && l.key == key { // a parameter's or a field's
			s.lives[old] = life{}
		}
		return
	}
	f.moveViews(s, c, fn, args, f.create(s, v, at.Index, typ, pos, life{st: held, key: key, alt: unknown, same: old}))
}
