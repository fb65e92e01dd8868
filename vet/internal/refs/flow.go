package refs

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// Limits of the search through one function. Paths beyond them are left out, which misses mistakes but causes
// no false reports.
const (
	maxVisits      = 6000 // of all blocks together
	maxBlockStates = 160  // of one block
)

// flow tracks references through one function, path by path.
type function struct {
	*Checker
	fn        *ssa.Function
	numbers   code.Numbers
	positions flow.Positions
	refs      map[refKey]*ref
	live      []map[ssa.Value]bool // values used in or after a block, by its index
	again     []bool               // blocks to which a path can come again, by their index
	table     conditions.Table
	tests     []map[*conditions.Condition]bool      // conditions tested in or after a block
	about     map[ssa.Value][]*conditions.Condition // conditions that depend on a value
	back      map[[2]int]bool                       // edges to a dominating block
	entry     *contracts.Contract                   // the declared contract of the parameters
	exits     []exit
	cut       bool // not all paths were followed
	quiet     bool // nothing is reported
	returns   bool // a path reaches a return
	// now is the instruction that runs; deferring the defer statement whose call runs.
	now, deferring token.Pos
	strays         map[ssa.Value]bool      // roots of places whose content is freed or given away after it was forgotten
	takesOut       *bool                   // see emptied
	loops          *bool                   // see loopsOver
	frees          map[token.Pos]bool      // calls of Free, and whether one path had something to free
	hoards         map[ssa.Value]token.Pos // slices and arrays in whose elements references are stored
	blank          map[*ssa.Store]bool     // stores of the zero Buffer over one of length 0, on every path so far
}

// exit is one exit from the function.
type exit struct {
	s    *state
	ret  *ssa.Return
	args []binding // of the results
}

// refKey says which ref is meant: each has one for each of its values, and one of the iteration before.
type refKey struct {
	v     ssa.Value
	from  origin
	index int         // of fromResult and fromLoan: the result, or -1 for the only one
	path  places.Path // of what is in the memory to which v leads
}

// origin says how a function came by a reference.
type origin uint8

const (
	fromResult   origin = iota // a call returned it, or a channel delivered it
	fromArgument               // v is a parameter
	fromMemory                 // it was in memory when the function looked there first
	fromHolder                 // it is in the container to which a call returned a pointer
	fromCopy                   // it is what a container had that was copied by value
	fromUse                    // v is a value of unknown origin, which was used
	fromNothing                // v is an empty slice of references
	fromOutlet                 // a call stored it in a variable
	fromSent                   // a call sent what was in a variable, which is empty now
	fromReceived               // a call received it in a variable
	fromLoan                   // it is bytes that a value lends
)

func (f *function) number(v ssa.Value) int { return f.numbers.Of(v) }

// refAt is the ref of a site.
func (f *function) refAt(key refKey, k kinds.Kind, pos token.Pos) *ref {
	r, ok := f.refs[key]
	if !ok {
		r = &ref{id: len(f.refs), kind: k, site: key.v, index: key.index, pos: pos, param: -1}
		f.refs[key] = r
	}
	return r
}

func (f *function) olderOf(r *ref) *ref {
	if r.older == nil {
		older := *r
		older.id = 1<<20 + r.id
		r.older = &older
	}
	return r.older
}

// newFunction prepares the search through fn.
func (c *Checker) newFunction(fn *ssa.Function, entry *contracts.Contract) *function {
	f := &function{
		Checker: c, fn: fn, entry: entry,
		refs: map[refKey]*ref{}, about: map[ssa.Value][]*conditions.Condition{}, back: map[[2]int]bool{}, frees: map[token.Pos]bool{}, strays: map[ssa.Value]bool{}, hoards: map[ssa.Value]token.Pos{}, blank: map[*ssa.Store]bool{},
	}
	f.live, f.again = code.Live(f.fn), code.Loops(f.fn)
	f.conditions()
	for _, b := range fn.Blocks {
		for _, succ := range b.Succs {
			if succ.Dominates(b) {
				f.back[[2]int{b.Index, succ.Index}] = true
			}
		}
	}
	return f
}

// conditions computes the conditions that each block or one after it tests, and the values whose redefinition
// invalidates them.
func (f *function) conditions() {
	f.tests = make([]map[*conditions.Condition]bool, len(f.fn.Blocks))
	note := func(at map[*conditions.Condition]bool, v ssa.Value) {
		c, _ := f.fact(v)
		at[c] = true
		for _, v := range c.Roots() {
			if !slices.Contains(f.about[v], c) {
				f.about[v] = append(f.about[v], c)
			}
		}
	}
	matters := func(v ssa.Value) bool { return code.IsError(v.Type()) || code.IsBool(v.Type()) }
	for i, b := range f.fn.Blocks {
		f.tests[i] = map[*conditions.Condition]bool{}
		for _, instr := range b.Instrs {
			switch instr := instr.(type) {
			case *ssa.If:
				note(f.tests[i], instr.Cond)
			case *ssa.Phi:
				if matters(instr) {
					for _, e := range append([]ssa.Value{instr}, instr.Edges...) {
						note(f.tests[i], e)
					}
				}
			case *ssa.Return:
				for _, r := range instr.Results {
					if matters(r) {
						note(f.tests[i], r)
					}
				}
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, b := range slices.Backward(f.fn.Blocks) {
			at := f.tests[b.Index]
			before := len(at)
			for _, succ := range b.Succs {
				for k := range f.tests[succ.Index] {
					at[k] = true
				}
				// A phi's edges are conditions of this block.
			}
			changed = changed || len(at) > before
		}
	}
}

// run follows all paths.
func (f *function) run() {
	s := newState()
	f.enter(s)
	search := flow.Search[*state]{
		Visits: maxVisits, States: maxBlockStates, Prune: f.prune, Run: f.block,
		Key:  func(s *state) string { return s.key(f.number) },
		Size: func(s *state) int { return s.Size() },
	}
	f.cut = !search.From(f.fn, s)
}

// block runs the instructions of b on s.
func (f *function) block(b *ssa.BasicBlock, s *state, next func(*ssa.BasicBlock, *state)) {
	for _, instr := range b.Instrs {
		if pos := instr.Pos(); pos.IsValid() {
			f.now = pos
		}
		if v, ok := instr.(ssa.Value); ok {
			if _, phi := instr.(*ssa.Phi); !phi {
				for _, c := range f.about[v] {
					s.unlearn(c)
				}
			}
			if f.again[b.Index] {
				f.redefine(s, v)
			}
		}
		switch instr := instr.(type) {
		case *ssa.Phi:
		case *ssa.If:
			f.branch(b, s, instr, next)
			return
		case *ssa.Return:
			f.leave(s, instr)
			return
		case *ssa.Panic:
			return
		case *ssa.Jump:
			next(b.Succs[0], f.edge(s, b, b.Succs[0]))
			return
		default:
			if !f.step(s, instr) {
				return
			}
		}
	}
}

// redefine forgets the memory to which an earlier value of v led.
func (f *function) redefine(s *state, v ssa.Value) {
	if _, ok := v.(*ssa.Alloc); ok {
		return
	}
	n, numbered := f.numbers.Known(v)
	indexed := func(step places.Step) bool { return step.Kind == places.Indexed && step.N == int64(n) }
	for p := range s.Mem {
		if p.Root == v || numbered && !code.IsBool(v.Type()) && p.Path.Any(indexed) {
			delete(s.Mem, p)
		}
	}
}

func (f *function) branch(b *ssa.BasicBlock, s *state, instr *ssa.If, next func(*ssa.BasicBlock, *state)) {
	known, ok := f.valueOf(s, instr.Cond)
	c, positive := f.test(instr.Cond)
	for i := 1; i >= 0; i-- { // the true branch is followed first
		taken := i == 0
		if ok && known != taken {
			continue
		}
		t := s.clone()
		if !ok {
			t.learn(c, taken == positive)
		}
		f.implied(t, instr.Cond, taken)
		if !ok && instr.Cond.Pos().IsValid() {
			t.Trail = s.Trail.Then(flow.Decision{Branch: instr, Taken: taken})
		}
		next(b.Succs[i], f.edge(t, b, b.Succs[i]))
	}
}

// edge gives the phis of the next block their values. It may change s.
func (f *function) edge(s *state, from, to *ssa.BasicBlock) *state {
	if f.back[[2]int{from.Index, to.Index}] {
		clear(s.mapped)
		// Values loaded from memory may have changed in the next iteration of the loop.
		for c := range s.Facts {
			if c.Mentions(changes) {
				delete(s.Facts, c)
			}
		}
	}
	at := slices.Index(to.Preds, from)
	type change struct {
		phi   *ssa.Phi
		b     binding
		value bool
		known bool
		alias *conditions.Condition
	}
	var changes []change
	carried := map[*conditions.Condition]bool{}
	for phi := range flow.Phis(to) {
		c := change{phi: phi, b: f.refsOf(s, phi.Edges[at])}
		if code.IsNil(phi.Edges[at]) && f.kinds.Elements(phi.Type()) {
			r := f.refAt(refKey{v: phi, from: fromNothing}, kinds.Bag, phi.Pos())
			s.lives[r] = life{st: void}
			c.b = binding{refs: []*ref{r}}
		}
		if code.IsError(phi.Type()) || code.IsBool(phi.Type()) {
			c.value, c.known = f.valueOf(s, phi.Edges[at])
			if !c.known {
				if same, positive := f.fact(phi.Edges[at]); positive {
					c.alias = s.root(same)
				}
			}
		}
		f.carry(s, phi.Edges[at], phi, carried)
		changes = append(changes, c)
	}
	for _, c := range changes {
		for _, old := range f.about[c.phi] {
			s.unlearn(old)
		}
		// Aliases of this phi's former value are invalid now.
		own, _ := f.fact(c.phi)
		for k, v := range s.alias {
			if v == own {
				delete(s.alias, k)
			}
		}
	}
	for _, c := range changes {
		if f.again[to.Index] {
			f.redefine(s, c.phi)
		}
		delete(s.Vals, flow.Of(c.phi))
		if !c.b.empty() {
			s.Vals[flow.Of(c.phi)] = c.b
		}
		own, _ := f.fact(c.phi)
		for k, v := range carried {
			s.Facts[k] = v
		}
		switch {
		case c.known:
			s.Facts[own] = c.value
		case c.alias != nil && c.alias != own:
			s.alias[own] = c.alias
		}
	}
	return s
}

// carry applies the comparisons known of a value to the phi that takes it.
func (f *function) carry(s *state, from ssa.Value, to *ssa.Phi, carried map[*conditions.Condition]bool) {
	old, now := f.term(from), f.term(to)
	for c, v := range s.Facts {
		if of, ok := f.table.Replace(c, old, now); ok {
			carried[of] = v
		}
	}
}

// prune drops state that has no effect any more, so that paths merge.
func (f *function) prune(b *ssa.BasicBlock, s *state) {
	needs := flow.Needs(f.live, b)
	for v := range s.Vals {
		if !needs(v.Value) {
			delete(s.Vals, v)
		}
	}
	tests := f.tests[b.Index]
	needed := map[*conditions.Condition]bool{}
	for _, l := range s.lives {
		if l.key != nil {
			needed[l.key] = true
		}
		if l.failure != nil {
			needed[l.failure] = true
		}
	}
	for k, to := range s.alias {
		if tests[k] {
			needed[to] = true
		} else {
			delete(s.alias, k)
		}
	}
	for k := range s.Facts {
		if !tests[k] && !needed[k] {
			delete(s.Facts, k)
		}
	}
	for r, l := range s.lives {
		if l.st == held && l.key == nil && r.kind != kinds.Loan {
			continue
		}
		if r.kind == kinds.Loan && (s.viewed(r) || l.kept.by != noKeeper) {
			continue
		}
		if !s.bound(r, flow.Slot{}) && r.param < 0 && (l.st != held || l.key == nil) && !s.viewed(r) {
			delete(s.lives, r)
		}
	}
}

// viewed reports whether bytes of r are still visible, or r matters to another ref.
func (s *state) viewed(r *ref) bool {
	for b := range s.All() {
		if slices.ContainsFunc(b.views, func(v view) bool { return v.of == r }) {
			return true
		}
	}
	for _, l := range s.lives {
		if slices.Contains(l.with, r.id) || l.same == r {
			return true
		}
	}
	return false
}

// enter binds the parameters.
func (f *function) enter(s *state) {
	for i, p := range f.fn.Params {
		k := f.kinds.Of(p.Type())
		ptr := f.kinds.Pointee(p.Type())
		if k == kinds.Untracked && ptr == kinds.Untracked {
			continue
		}
		if e := f.entry.Param(i); ptr == kinds.Composite && e.Effect == contracts.Empty && e.When == contracts.Always && !f.inTarn() {
			if f.enterParts(s, p) {
				continue
			}
		}
		r := f.refAt(refKey{v: p, from: fromArgument}, max(k, ptr), p.Pos())
		r.param, r.field = i, p.Name()
		l := life{st: foreign}
		switch e := f.entry.Param(i); {
		case e.Effect == contracts.Take && e.When == contracts.Always && k != kinds.Untracked:
			l.st = held
		case e.Effect == contracts.Empty && e.When == contracts.Always && k == kinds.Untracked && !f.inTarn():
			l.st = held // the memory that it points to
		case e.Effect == contracts.Borrow && k != kinds.Untracked:
			l.st = lent
		}
		s.lives[r] = l
		b := binding{refs: []*ref{r}}
		if k != kinds.Untracked {
			s.Vals[flow.Of(p)] = b
		} else {
			s.Mem[places.Of(p)] = b
		}
	}
	for _, v := range f.fn.FreeVars {
		if call := f.handedIn(v); call != nil {
			r := f.refAt(refKey{v: v, from: fromMemory}, kinds.Handle, call.Pos())
			r.site, r.field = nil, v.Name()
			s.lives[r] = life{st: held}
			s.Mem[places.Of(v)] = binding{refs: []*ref{r}}
		}
	}
}

// handedIn is the call that returned the reference in a variable that a literal captures, if that runs once, in a goroutine of its own, and
// nothing else uses the variable but to look at it: the literal owns the reference then. Otherwise it is nil.
func (f *function) handedIn(v *ssa.FreeVar) *ssa.Call {
	if f.kinds.Pointee(v.Type()) != kinds.Handle {
		return nil
	}
	mc := madeBy(f.fn)
	if mc == nil || !onlySpawned(mc) {
		return nil
	}
	variable, ok := mc.Bindings[slices.Index(f.fn.FreeVars, v)].(*ssa.Alloc)
	if !ok {
		return nil
	}
	var call *ssa.Call
	for _, u := range *variable.Referrers() {
		switch u := u.(type) {
		case *ssa.Store:
			from, ok := u.Val.(*ssa.Call)
			if !ok || call != nil {
				return nil
			}
			call = from
		case *ssa.UnOp:
			if f.released(u) {
				return nil
			}
		case *ssa.MakeClosure:
			if u != mc {
				return nil
			}
		case *ssa.DebugRef:
		default:
			return nil
		}
	}
	if call == nil || call.Block() != mc.Block() {
		return nil
	}
	if res := f.contractOf(&call.Call).Result(0); res.Source != contracts.Owned || res.When != contracts.Always {
		return nil
	}
	return call
}

// madeBy is the instruction that makes a literal, if there is one.
func madeBy(fn *ssa.Function) (made *ssa.MakeClosure) {
	if fn.Parent() == nil {
		return nil
	}
	for _, b := range fn.Parent().Blocks {
		for _, instr := range b.Instrs {
			if mc, ok := instr.(*ssa.MakeClosure); ok && mc.Fn == ssa.Value(fn) {
				if made != nil {
					return nil
				}
				made = mc
			}
		}
	}
	return made
}

// enterParts binds the references in a struct that a function takes over, one by one, if there are several of which some are no parts of
// arrays and the like.
func (f *function) enterParts(s *state, p *ssa.Parameter) bool {
	typ := p.Type().Underlying().(*types.Pointer).Elem()
	leaves := f.kinds.Leaves(typ)
	if _, only := f.kinds.OnlyLeaf(typ); only || len(leaves) == 0 {
		return false
	}
	for _, leaf := range leaves {
		at := places.Of(p).Join(leaf)
		r := f.refAt(refKey{v: p, from: fromMemory, path: leaf}, f.kinds.Of(at.Type()), p.Pos())
		r.site, r.field, r.taken = nil, f.nameOf(at), p.Name()
		s.lives[r] = life{st: held}
		s.Mem[at] = binding{refs: []*ref{r}}
	}
	for _, leaf := range f.kinds.Pointers(typ) { // a nil one holds nothing
		at := places.Of(p).Join(leaf)
		to := at.With(places.Step{Kind: places.Pointer})
		r := f.refAt(refKey{v: p, from: fromMemory, path: to.Path}, kinds.Container, p.Pos())
		r.site, r.field, r.taken = nil, f.nameOf(at), p.Name()
		s.lives[r] = life{st: void, key: f.table.Nil(f.table.Load(at)), alt: held}
		s.Mem[to] = binding{refs: []*ref{r}}
	}
	return true
}

// elementsOf is the place of which the elements of a slice or map are parts: in a variable, in an element of a map, or an
// array.
func (f *function) elementsOf(v ssa.Value) (places.Place, bool) {
	switch v := v.(type) {
	case *ssa.UnOp:
		if v.Op == token.MUL {
			p, ok := f.placeOf(v.X)
			return p.With(places.Step{Kind: places.Pointer}), ok
		}
	case *ssa.Lookup:
		p := f.inMap(v.X, v.Index)
		return p.With(places.Step{Kind: places.Pointer}), true
	case *ssa.Slice:
		if _, array := v.X.(*ssa.Alloc); array && v.Low == nil {
			return f.placeOf(v.X)
		}
	}
	return places.Place{}, false
}

// inMap is the place of an element of a map.
func (f *function) inMap(m, key ssa.Value) places.Place {
	p, ok := f.elementsOf(m)
	if !ok {
		p = places.Of(m).With(places.Step{Kind: places.Pointer})
	}
	return p.With(places.Index(key, f.numbers.Of))
}

// placeOf names the memory to which a pointer leads.
func (f *function) placeOf(v ssa.Value) (places.Place, bool) {
	switch v := v.(type) {
	case *ssa.FieldAddr:
		if p, ok := f.placeOf(v.X); ok {
			return p.With(places.Step{Kind: places.Field, N: int64(v.Field)}), true
		}
		return places.Place{}, false
	case *ssa.IndexAddr:
		index := places.Index(v.Index, f.numbers.Of)
		if _, array := v.X.Type().Underlying().(*types.Pointer); array {
			p, ok := f.placeOf(v.X)
			return p.With(index), ok
		}
		p, ok := f.elementsOf(v.X)
		if !ok {
			p = places.Of(v.X).With(places.Step{Kind: places.Pointer})
		}
		return p.With(index), true
	case *ssa.UnOp:
		if v.Op == token.MUL {
			if p, ok := f.placeOf(v.X); ok {
				return p.With(places.Step{Kind: places.Pointer}), true
			}
		}
	case *ssa.ChangeType:
		return f.placeOf(v.X)
	}
	if _, ok := v.Type().Underlying().(*types.Pointer); !ok {
		return places.Place{}, false
	}
	return places.Of(v), true
}
