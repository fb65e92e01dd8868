// Package pools finds uses of pooled memory after its reference was given up, for the pools that package poolfile
// describes. It follows references, and bytes of them, on every path of a function. A function's effects on its
// arguments are inferred from its body, and are facts for its callers.
//
// Memory that is not put back is no mistake: the garbage collector frees it.
package pools

import (
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/poolfile"
)

// Limits of the search through one function. Paths beyond them are left out.
const (
	maxVisits      = 3000
	maxBlockStates = 80
)

// Checker finds the mistakes in one package.
type Checker struct {
	Contracts *poolfile.Set
	// Fact returns what is known of a function of another package.
	Fact func(*types.Func, *Summary) bool
	// Report is called for each finding.
	Report func(Finding)
	// Name is the name of the variable to which the result of the call at a position is assigned, if any.
	Name func(token.Pos) string
	// Where is a position's line, with the file if that differs from near's.
	Where func(pos, near token.Pos) string

	known  map[*types.Func]*Summary
	anon   map[*ssa.Function]*Summary
	others map[*types.Func]*Summary
	seen   map[report]bool
}

type report struct {
	kind string
	pos  token.Pos
}

// flow follows references through one function.
type function struct {
	*Checker
	fn        *ssa.Function
	numbers   code.Numbers
	positions flow.Positions
	table     conditions.Table
	objects   map[objectKey]*Object
	parts     map[ssa.Value][]places.Path // of the objects that a value names
	live      []map[ssa.Value]bool
	loops     []bool // blocks to which a path can come again, by their index
	exits     []exit
	cut       bool
	// deferring is the defer statement whose call runs.
	deferring token.Pos
	leaked    map[*ssa.Alloc]bool // variables whose address other code may have
}

type objectKey struct {
	v    ssa.Value
	gen  int
	path places.Path
}

// exit is the state at a return, with what the results lead to.
type exit struct {
	s       *state
	ret     *ssa.Return
	results []Binding
}

func (f *function) number(v ssa.Value) int {
	if v == nil {
		return -1
	}
	return f.numbers.Of(v)
}

// run follows all paths.
func (f *function) run() {
	f.live, f.loops = code.Live(f.fn), code.Loops(f.fn)
	search := flow.Search[*state]{
		Visits: maxVisits, States: maxBlockStates, Prune: f.prune, Run: f.block,
		Key:  func(s *state) string { return s.key(f.number) },
		Size: func(s *state) int { return s.Size() },
	}
	f.cut = !search.From(f.fn, newState())
}

// prune drops what has no effect any more, so that paths merge.
func (f *function) prune(b *ssa.BasicBlock, s *state) {
	needs := flow.Needs(f.live, b)
	keep := func(v ssa.Value) bool {
		switch v.(type) {
		case *ssa.Parameter, *ssa.FreeVar, *ssa.Global:
			return true
		}
		return needs(v)
	}
	for v := range s.Vals {
		if !keep(v.Value) {
			delete(s.Vals, v)
		}
	}
	used := map[ssa.Value]bool{}
	for v, w := range s.same {
		if !keep(v) {
			delete(s.same, v)
		} else {
			used[w] = true
		}
	}
	for p, v := range s.loads {
		if !keep(p.Root) && !used[p.Root] {
			delete(s.loads, p)
		} else {
			used[v] = true
		}
	}
	for c := range s.Facts {
		for _, v := range c.Roots() {
			if !keep(v) && !used[v] {
				delete(s.Facts, c)
			}
		}
	}
	for p := range s.Mem {
		if !keep(p.Root) && !used[p.Root] {
			delete(s.Mem, p)
		}
	}
	bound := map[*Object]bool{}
	for b := range s.All() {
		for _, r := range b {
			bound[r.Of] = true
		}
	}
	for o := range s.objs {
		if !keep(o.value) && !bound[o] && !used[o.value] && !f.ofParameter(o) && !s.objs[o].remains() {
			delete(s.objs, o)
		}
	}
	for v := range s.gen {
		if !keep(v) && !used[v] {
			delete(s.gen, v)
		}
	}
}

// ofParameter reports whether an object is a parameter's, or was found in memory to which one leads.
func (f *function) ofParameter(o *Object) bool {
	v := o.value
	if o.found {
		v = o.from.Root
	}
	switch v.(type) {
	case *ssa.Parameter, *ssa.FreeVar:
		return true
	}
	return false
}

// block runs the instructions of b and passes the next blocks to next.
func (f *function) block(b *ssa.BasicBlock, s *state, next func(*ssa.BasicBlock, *state)) {
	for _, instr := range b.Instrs {
		switch instr := instr.(type) {
		case *ssa.Phi:
			continue
		case *ssa.If:
			f.branch(b, s, instr, next)
			return
		case *ssa.Return:
			f.leave(s, instr)
			return
		case *ssa.Panic:
			return
		case *ssa.Jump:
			f.edge(s, b, b.Succs[0])
			next(b.Succs[0], s)
			return
		}
		if v, ok := instr.(ssa.Value); ok && f.loops[b.Index] {
			f.redefine(s, v)
		}
		if !f.step(s, instr) {
			return
		}
	}
}

// redefine forgets what was known of v before the instruction that defines it runs again.
func (f *function) redefine(s *state, v ssa.Value) {
	known := func(path places.Path) bool {
		o := f.objects[objectKey{v, s.gen[v], path}]
		if o == nil {
			return false
		}
		_, ok := s.objs[o]
		return ok || s.bound(o)
	}
	if slices.ContainsFunc(f.parts[v], known) {
		s.gen[v] = 1 - s.gen[v]
		for _, path := range f.parts[v] {
			if old := f.objects[objectKey{v, s.gen[v], path}]; old != nil {
				f.remains(s, old)
				delete(s.objs, old)
				s.detach(func(r Ref) bool { return r.Of == old })
			}
		}
	}
	delete(s.Vals, flow.Of(v))
	delete(s.same, v)
	for w, old := range s.same {
		if old == v {
			delete(s.same, w)
		}
	}
	for p, w := range s.loads {
		if p.Root == v || w == v {
			delete(s.loads, p)
		}
	}
	for p := range s.Mem {
		if p.Root == v {
			delete(s.Mem, p)
		}
	}
	for c := range s.Facts {
		if slices.Contains(c.Roots(), v) {
			delete(s.Facts, c)
		}
	}
}

func (f *function) branch(b *ssa.BasicBlock, s *state, instr *ssa.If, next func(*ssa.BasicBlock, *state)) {
	value, known := f.truth(s, instr.Cond)
	c, positive := f.test(s, instr.Cond)
	for i := 1; i >= 0; i-- { // the true branch is followed first
		taken := i == 0
		if known && value != taken {
			continue
		}
		t := s.clone()
		if !known {
			t.Facts[c] = taken == positive
			t.Trail = s.Trail.Then(flow.Decision{Branch: instr, Taken: taken})
		}
		if taken {
			f.chosen(t, instr)
		}
		f.edge(t, b, b.Succs[i])
		next(b.Succs[i], t)
	}
}

// truth is what is known of a bool.
func (f *function) truth(s *state, v ssa.Value) (value, ok bool) {
	if value, ok = fixed(v); ok {
		return value, true
	}
	c, positive := f.test(s, v)
	if c.Op == conditions.True {
		if value, ok = fixed(c.X.Value); ok {
			return value == positive, true
		}
	}
	if value, ok = s.Facts[c]; ok {
		return value == positive, true
	}
	if c.Op == conditions.Equal && f.identical(s, c.X, c.Y) {
		return positive, true
	}
	return false, false
}

// identical reports whether two terms are the same reference, as the variable of a loop and its first value are.
func (f *function) identical(s *state, x, y *conditions.Term) bool {
	if x.Form != conditions.Value || y.Form != conditions.Value {
		return false
	}
	a, b := f.refs(s, x.Value), f.refs(s, y.Value)
	return len(a) == 1 && len(b) == 1 && a[0].Of == b[0].Of && a[0].Mode == Self && b[0].Mode == Self
}

// edge gives the phis of the next block their values.
func (f *function) edge(s *state, from, to *ssa.BasicBlock) {
	at := slices.Index(to.Preds, from)
	type change struct {
		phi   *ssa.Phi
		b     Binding
		facts map[*conditions.Condition]bool
	}
	var changes []change
	for phi := range flow.Phis(to) {
		c := change{phi: phi, b: f.refs(s, phi.Edges[at]), facts: map[*conditions.Condition]bool{}}
		edge := s.original(phi.Edges[at])
		for known, value := range s.Facts { // what is known of the edge is known of the phi
			if now, ok := f.table.Rooted(known, edge, phi); ok {
				c.facts[now] = value
			}
		}
		if k, ok := edge.(*ssa.Const); ok {
			if k.IsNil() {
				c.facts[f.table.Nil(f.table.Value(phi))] = true
			} else if value, ok := fixed(k); ok {
				c.facts[f.table.True(f.table.Value(phi))] = value
			}
		} else if nonNil(edge) {
			c.facts[f.table.Nil(f.table.Value(phi))] = false
		}
		changes = append(changes, c)
	}
	for _, c := range changes {
		if f.loops[to.Index] {
			f.redefine(s, c.phi)
		}
		s.Vals[flow.Of(c.phi)] = c.b
		for known, value := range c.facts {
			s.Facts[known] = value
		}
	}
}

// nonNil reports whether a value is certainly not nil.
func nonNil(v ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.MakeInterface, *ssa.Alloc, *ssa.MakeClosure, *ssa.MakeSlice, *ssa.MakeMap:
		return true
	case *ssa.UnOp:
		g, ok := v.X.(*ssa.Global)
		return ok && v.Op == token.MUL && code.IsError(g.Type().(*types.Pointer).Elem())
	}
	return false
}

// object is the object that a value is when it is first seen.
func (f *function) object(s *state, v ssa.Value, path places.Path) *Object {
	key := objectKey{v, s.gen[v], path}
	o := f.objects[key]
	if o == nil {
		o = &Object{id: len(f.objects), value: v}
		f.objects[key] = o
		if !slices.Contains(f.parts[v], path) {
			f.parts[v] = append(f.parts[v], path)
		}
	}
	return o
}

// tracked reports whether a value of the type can be a reference.
func tracked(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Interface, *types.Struct:
		return !code.IsError(t)
	case *types.Basic:
		return u.Kind() == types.UnsafePointer
	}
	return false
}

// refs is what a value leads to: by default, itself.
func (f *function) refs(s *state, v ssa.Value) Binding {
	if b, ok := s.Vals[flow.Of(v)]; ok {
		return b
	}
	switch v := v.(type) {
	case *ssa.Const, *ssa.Function, *ssa.Global, *ssa.Builtin:
		return nil
	case *ssa.FieldAddr:
		return f.refs(s, v.X).with(View)
	case *ssa.IndexAddr:
		return f.refs(s, v.X).with(View)
	}
	if v = s.original(v); !tracked(v.Type()) {
		return nil
	}
	if b, ok := s.Vals[flow.Of(v)]; ok {
		return b
	}
	return Binding{{Of: f.object(s, v, places.Path{})}}
}

// reach is what a value leads to, with what is in the variable that it points to.
func (f *function) reach(s *state, v ssa.Value) Binding {
	b := f.refs(s, v)
	if _, ok := v.Type().Underlying().(*types.Pointer); ok {
		if p, ok := s.placeOf(v); ok && p.Variable() {
			b = b.join(f.inside(s, p))
		}
	}
	return b
}

// inside is what a place and its parts lead to, as things in it.
func (f *function) inside(s *state, p places.Place) Binding {
	var b Binding
	for q, c := range s.Mem {
		if q.Within(p) {
			b = b.join(c.with(Inside))
		}
	}
	slices.SortFunc(b, func(x, y Ref) int { return x.Of.id - y.Of.id })
	return b
}

// ended reports whether what a reference leads to is not valid any more.
func (s *state) ended(r Ref) (status, bool) {
	st := s.objs[r.Of]
	return st, st.ended.IsValid() || r.Mode != Self && r.epoch < st.epoch
}

// look handles a use of what a value leads to.
func (f *function) look(s *state, b Binding, pos token.Pos, how string) {
	for _, r := range b {
		if r.Mode == Inside {
			continue
		}
		if st, ended := s.ended(r); ended {
			f.used(s, r, st, pos, how)
			f.forget(s, r.Of)
		}
	}
}

// forget drops what is known of an object.
func (f *function) forget(s *state, o *Object) {
	s.objs[o] = status{epoch: -1 << 20}
}

// fails reports whether the last result is certainly an error: callers use none of the others then.
func (f *function) fails(s *state, ret *ssa.Return) bool {
	n := len(ret.Results)
	if n == 0 || !code.IsError(ret.Results[n-1].Type()) {
		return false
	}
	err := ret.Results[n-1]
	null, known := s.Facts[f.table.Nil(f.term(s, err))]
	return known && !null || nonNil(err)
}

// leave handles a return: what outlives the function must not have ended.
func (f *function) leave(s *state, ret *ssa.Return) {
	e := exit{s: s, ret: ret}
	for _, v := range ret.Results {
		b := f.reach(s, v)
		e.results = append(e.results, b)
	}
	f.exits = append(f.exits, exit{s.clone(), ret, e.results})
	for _, o := range slices.SortedFunc(maps.Keys(s.objs), func(a, b *Object) int { return a.id - b.id }) {
		f.remains(s, o)
	}
	if f.fails(s, ret) {
		return
	}
	for i, b := range e.results {
		for _, r := range b {
			if st, ended := s.ended(r); ended && !code.IsError(ret.Results[i].Type()) {
				f.returned(s, r, st, ret.Pos())
				f.forget(s, r.Of)
			}
		}
	}
}
