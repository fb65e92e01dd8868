package refs

// This file tracks bytes of references: through the values that lead to them, to the places where they
// outlive the reference.

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// A view is bytes of a ref; they end with it, and when a container changes.
type view struct {
	of      *ref
	changes int
	// inside is set for a value that leads to the bytes and is not the bytes: a function literal that captured
	// them, a struct or slice that contains them, a reader of them. Such a value may be used after they have
	// ended, if the bytes are not.
	inside bool
}

// A keeper says where a view is stored that outlives the function.
type keeper uint8

const (
	noKeeper  keeper = iota
	memory           // a place that other code can reach
	forGood          // a place from which it is not removed again
	goroutine        // another goroutine, which may have finished with it when this one has waited
)

// custody is where a view that outlives the function was stored.
type custody struct {
	by  keeper
	pos token.Pos
	in  string       // "sent", "stored in h.view"
	at  places.Place // of memory, if known
}

// inside returns views for a value that contains them.
func inside(views []view) []view {
	if !slices.ContainsFunc(views, func(v view) bool { return !v.inside }) {
		return views
	}
	views = slices.Clone(views)
	for i := range views {
		views[i].inside = true
	}
	return views
}

// reach is the views to which v leads: its own, and those in a variable of this function that it points to.
func (f *function) reach(s *state, v ssa.Value) []view {
	if b, ok := s.Vals[flow.Of(v)]; ok && len(b.views) > 0 {
		return b.views
	}
	switch v := v.(type) {
	case *ssa.ChangeType:
		return f.reach(s, v.X)
	case *ssa.Slice:
		if _, ok := v.X.(*ssa.Alloc); ok {
			return f.reach(s, v.X)
		}
	case *ssa.Alloc:
		return f.viewsIn(s, places.Of(v))
	}
	return nil
}

// viewsIn is the views stored at a place or in parts of it.
func (f *function) viewsIn(s *state, p places.Place) []view {
	var b binding
	for q, c := range s.Mem {
		if q.Within(p) {
			b = b.join(binding{views: inside(c.views)})
		}
	}
	slices.SortFunc(b.views, func(x, y view) int { return x.of.id - y.of.id })
	return b.views
}

// reaching is a value's binding, with the views to which it leads.
func (f *function) reaching(s *state, v ssa.Value) binding {
	b := f.refsOf(s, v)
	if len(b.views) == 0 {
		b.views = inside(f.reach(s, v))
	}
	return b
}

// carries reports whether a value of type typ can lead to bytes.
func carries(typ types.Type) bool {
	switch u := typ.Underlying().(type) {
	case *types.Basic:
		return false
	case *types.Array:
		return carries(u.Elem())
	case *types.Struct:
		for v := range u.Fields() {
			if carries(v.Type()) {
				return true
			}
		}
		return false
	}
	return true
}

// loadInside binds a struct, array or element that was read from memory with bytes in it.
func (f *function) loadInside(s *state, v *ssa.UnOp, p places.Place) {
	if !p.Local() || s.escaped[p.Root] || !carries(v.Type()) {
		return
	}
	if views := f.viewsIn(s, p); len(views) > 0 {
		s.Vals[flow.Of(v)] = binding{views: views}
	}
}

// keep records that views were stored where they outlive the function.
func (f *function) keep(s *state, b binding, to custody) {
	for _, v := range b.views {
		l, ok := s.lives[v.of]
		if !ok || v.of.kind != kinds.Handle && v.of.kind != kinds.Loan || l.st != held && l.st != foreign {
			continue
		}
		l.kept = to
		s.lives[v.of] = l
	}
}

// unkeep records that a place was overwritten, and with it a view stored there.
func (f *function) unkeep(s *state, p places.Place) {
	f.release(s, func(c custody) bool { return c.by == memory && c.at.Within(p) })
}

// synchronized records that another goroutine may have caught up: it may have finished with what it was
// given, and may have returned it.
func (f *function) synchronized(s *state) {
	f.signalled(s)
	for r, l := range s.lives {
		if l.sent {
			s.forget(r)
		}
	}
}

// signalled records that this goroutine may have waited for others: they may have finished with bytes that they
// were lent.
func (f *function) signalled(s *state) {
	f.release(s, func(c custody) bool { return c.by == goroutine })
}

// release ends the custody of those that match.
func (f *function) release(s *state, match func(custody) bool) {
	for r, l := range s.lives {
		if match(l.kept) {
			l.kept = custody{}
			s.lives[r] = l
		}
	}
}

// ofViews is the refs whose bytes views are.
func ofViews(views []view) []*ref {
	var refs []*ref
	for _, v := range views {
		if !slices.Contains(refs, v.of) {
			refs = append(refs, v.of)
		}
	}
	return refs
}

// whole is the views that a holder of the refs themselves has.
func (f *function) whole(s *state, b binding) []view {
	var views []view
	for _, r := range b.refs {
		views = append(views, view{of: r, changes: s.lives[r].changes, inside: true})
	}
	return views
}

// computes reports whether a call certainly waits for no other goroutine.
func (f *function) computes(c *ssa.CallCommon) bool {
	fn := code.Callee(c)
	if fn == nil {
		return false
	}
	return contracts.Primitive(f.kinds, fn) != nil || !c.IsInvoke() && stdlib.Computes(fn)
}

// overtaken ends the custody of views that a call may end: in memory that it can reach, and in goroutines that
// it may wait for.
func (f *function) overtaken(s *state, c *ssa.CallCommon) {
	if !f.computes(c) {
		f.synchronized(s)
		clear(s.mapped)
	}
	fn := code.Callee(c)
	if fn != nil && contracts.Primitive(f.kinds, fn) != nil {
		return
	}
	library := stdlib.Borrows(fn)
	f.rewritten(s, c)
	var roots []ssa.Value
	for _, a := range code.Operands(c) {
		if m, ok := a.(*ssa.MakeInterface); ok {
			a = m.X
		}
		if p, ok := f.placeOf(a); ok {
			roots = append(roots, p.Root)
		}
		roots = append(roots, a)
	}
	f.release(s, func(k custody) bool {
		_, global := k.at.Root.(*ssa.Global)
		return k.by == memory && (fn == nil || global && !library || slices.Contains(roots, k.at.Root))
	})
}

// keptBy is the memory of the receiver or first argument, in which a function stores another.
func (f *function) keptBy(c *ssa.CallCommon) places.Place {
	if vars := code.Operands(c); len(vars) > 0 {
		if p, ok := f.placeOf(vars[0]); ok {
			return p
		}
	}
	return places.Place{}
}

// returnViews reports returned bytes that have ended.
func (f *function) returnViews(s *state, v ssa.Value, pos token.Pos) {
	how := "returned"
	if code.IsFunc(v.Type()) {
		how = "used by a function literal that is returned"
	}
	if f.replacesElements(v.Type()) {
		return
	}
	for _, w := range f.reach(s, v) {
		l, ok := s.lives[w.of]
		switch {
		case !ok || l.key != nil:
			continue
		case l.st == freed && (w.of.kind == kinds.Handle || w.of.kind == kinds.Loan):
		case w.of.kind == kinds.Container && w.changes != l.changes && l.st == void:
		default:
			continue
		}
		f.report(s, report.Escape, w.of, pos, how)
		s.forget(w.of)
	}
}

// beside reports whether a struct has r in one field and the place at in another: its owner frees the one and drops the
// other.
func (s *state) beside(r *ref, at places.Place) bool {
	owner, field := at, false
	for !field {
		up, last, ok := owner.Path.Up()
		if !ok {
			return false
		}
		owner.Path, field = up, last.Kind == places.Field
	}
	notField := func(s places.Step) bool { return s.Kind != places.Field }
	for p, b := range s.Mem {
		if p != at && b.has(r) && p != owner && p.Within(owner) && !p.Path.After(owner.Path).Any(notField) {
			return true
		}
	}
	return false
}

// keepIn records views that were stored in memory. Memory that only this function reaches leads to them; other
// memory keeps them.
func (f *function) keepIn(s *state, b binding, at places.Place, pos token.Pos, in string) {
	switch at.Root.(type) {
	case *ssa.Parameter, *ssa.FreeVar, *ssa.Global:
		b.views = slices.DeleteFunc(slices.Clone(b.views), func(v view) bool { return s.beside(v.of, at) })
		f.keep(s, b, custody{by: memory, pos: pos, in: in, at: at})
	case nil:
	case *ssa.Alloc:
		if p := at.With(places.Step{Kind: places.Field, N: -1}); at.Local() && !s.escaped[at.Root] && len(b.views) > 0 {
			s.Mem[p] = s.Mem[p].join(binding{views: inside(b.views)})
		}
	default:
		if p := (flow.Of(at.Root)); len(b.views) > 0 && f.kinds.Pointee(at.Root.Type()) == kinds.Untracked {
			s.Vals[p] = s.Vals[p].join(binding{views: inside(b.views)})
		}
	}
}

// rewritten stops tracking the views in variables whose address is an argument of a call: the call may
// replace them.
func (f *function) rewritten(s *state, c *ssa.CallCommon) {
	fn := code.Callee(c)
	library := stdlib.Borrows(fn)
	mc, literal := c.Value.(*ssa.MakeClosure)
	for i, a := range code.Operands(c) {
		if f.kinds.Pointee(a.Type()) != kinds.Untracked {
			continue
		}
		if literal && i >= len(c.Args) && !written(mc.Fn.(*ssa.Function).FreeVars[i-len(c.Args)]) {
			continue
		}
		switch a := a.(type) {
		case *ssa.Alloc:
			f.dropViewsIn(s, places.Of(a))
		default:
			if _, ok := a.Type().Underlying().(*types.Pointer); ok && !library {
				delete(s.Vals, flow.Of(a))
			}
		}
	}
}

// replacesElements reports whether the function assigns elements of slices of a type other than bytes: it may
// replace bytes by a copy, in a loop.
func (f *function) replacesElements(typ types.Type) bool {
	if _, ok := typ.Underlying().(*types.Slice); !ok || kinds.IsBytes(typ) {
		return false
	}
	return storesTo(f.fn, func(addr ssa.Value) bool {
		ia, ok := addr.(*ssa.IndexAddr)
		return ok && types.Identical(ia.X.Type(), typ)
	}) > 0
}
