package vet

import (
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

func intValue(n int64) constant.Value { return constant.MakeInt64(n) }

// operands are the arguments of a call, an interface method's receiver included.
func operands(c *ssa.CallCommon) []ssa.Value {
	if c.IsInvoke() {
		return append([]ssa.Value{c.Value}, c.Args...)
	}
	if mc, ok := c.Value.(*ssa.MakeClosure); ok {
		return append(slices.Clip(c.Args), mc.Bindings...)
	}
	return c.Args
}

// callee is the function or method that a call names; nil for a function value.
func callee(c *ssa.CallCommon) *types.Func {
	if c.IsInvoke() {
		return c.Method
	}
	fn := c.StaticCallee()
	if fn == nil {
		return nil
	}
	if o := fn.Origin(); o != nil {
		fn = o
	}
	obj, _ := fn.Object().(*types.Func)
	return obj
}

func calleeName(c *ssa.CallCommon) string {
	if fn := callee(c); fn != nil {
		return fn.Name()
	}
	return "the function"
}

// call runs a call statement or expression.
func (f *flow) call(s *state, c *ssa.CallCommon, v ssa.Value, pos token.Pos) bool {
	if b, ok := c.Value.(*ssa.Builtin); ok {
		f.builtin(s, b.Name(), c, v, pos)
		return true
	}
	var args []binding
	for _, a := range operands(c) {
		args = append(args, f.refsOf(s, a))
	}
	return f.apply(s, c, args, v, pos)
}

// apply does what a call's contract says. v is nil for deferred calls.
func (f *flow) apply(s *state, c *ssa.CallCommon, args []binding, v ssa.Value, pos token.Pos) bool {
	if _, ok := c.Value.(*ssa.Builtin); ok {
		return true
	}
	fn := callee(c)
	if fn != nil && neverReturns(fn) {
		return false
	}
	if fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "testing" && failsTest[fn.Name()] {
		return false // the test has failed: what it leaves behind does not matter
	}
	con := f.contractOf(c)
	if con != nil && con.NoReturn {
		return false
	}
	vars := operands(c)
	name := f.callText(c)
	library := fn != nil && borrowsArguments(fn)
	if fn != nil && v != nil && con != nil {
		for i := range vars {
			if con.NilErr&(1<<i) != 0 {
				s.learn("nil("+f.canon(vars[i])+")", true)
			}
		}
	}
	// Conditions on results are named before effects, which may depend on them.
	sig := c.Signature()
	for i, b := range args {
		if b.empty() && f.kinds.kindOf(vars[i].Type()) == handle {
			b = f.firstSeen(s, vars[i], pos)
			args[i] = b
		}
		if b.empty() {
			continue
		}
		p := con.param(i)
		if library && p.Effect == effectUnknown {
			p.Effect = effectBorrow
			if c, ok := vars[i].(*ssa.MakeInterface); ok && len(b.refs) == 1 && b.refs[0].kind == container {
				p.Effect = effectFill // read from or written to
				if named := namedOf(c.X.Type()); named != nil && named.Obj().Name() == "Chain" {
					p.Effect = effectDrain
				}
			}
		}
		f.argument(s, c, v, i, vars[i], b, p, name, pos)
	}
	if (fn == nil || !library && !f.harmless(fn)) && f.touches(con, fn) {
		f.forgetMemory(s)
	}
	if fn != nil && (fn.Name() == "Wait" || fn.Name() == "Lock" || fn.Name() == "Unlock" || fn.Name() == "Do") {
		f.synchronized(s)
	}
	if v == nil {
		return true
	}
	f.results(s, c, con, fn, sig, args, v, pos)
	return true
}

// firstSeen binds a handle of unknown origin, so that what happens to it from here on is followed.
func (f *flow) firstSeen(s *state, v ssa.Value, pos token.Pos) binding {
	switch v.(type) {
	case *ssa.Const, *ssa.Global:
		return binding{}
	}
	if _, ok := s.vals[slot{v, -1}]; ok {
		return binding{}
	}
	r := f.refAt(refKey{v, -5, ""}, handle, pos)
	r.site = nil
	s.lives[r] = life{st: foreign}
	b := binding{refs: []*ref{r}}
	s.vals[slot{v, -1}] = b
	return b
}

// touches reports whether a call may change memory that this function knows.
func (f *flow) touches(con *contract, fn *types.Func) bool {
	return fn == nil || fn.Pkg() != f.kinds.tarn || f.pass.Pkg == f.kinds.tarn && !f.isBaseMethod(fn)
}

func (f *flow) isBaseMethod(fn *types.Func) bool {
	r := fn.Signature().Recv()
	return r != nil && f.kinds.isBase(r.Type())
}

// harmless reports whether fn is a method of package tarn, which changes nothing but its arguments.
func (f *flow) harmless(fn *types.Func) bool {
	return f.kinds.primitive(fn) != nil
}

// argument does to one argument what the call does.
func (f *flow) argument(s *state, c *ssa.CallCommon, v ssa.Value, i int, a ssa.Value, b binding, p param, name string, pos token.Pos) {
	how := "used"
	if p.Effect == effectFree || p.Effect == effectDrop {
		how = "freed"
	}
	if p.Effect == effectNone {
		return
	}
	pointer := f.kinds.kindOf(a.Type()) == untracked && len(b.refs) > 0
	if !pointer || p.Effect != effectUnknown { // the address of a variable may be for writing to it
		f.look(s, binding{refs: b.refs}, pos, how)
	}
	if len(b.views) > 0 {
		f.viewArgument(s, c, a, b, pos)
		if len(b.refs) == 0 {
			return
		}
	}
	if b.part && p.Effect != effectBorrow && p.Effect != effectFill {
		f.giveAway(s, b)
		if f.kinds.kindOf(a.Type()) != handle {
			return
		}
		// The element itself is followed on.
		delete(s.vals, slot{a, -1})
		if b = f.firstSeen(s, a, pos); b.empty() {
			return
		}
	}
	switch p.Effect {
	case effectBorrow:
	case effectTake, effectFree:
		if pointer {
			f.empty(s, b, p, v, pos)
			return
		}
		if fn := callee(c); fn == nil || f.kinds.primitive(fn) == nil {
			if p.Effect == effectTake {
				f.dropViews(s, b) // who took it may keep the memory, and say so
			}
		} else if p.When != always && v != nil && ignored(resultOf(v, 0)) && f.inTest(pos) {
			return // a test that looks at the outcome alone expects that nothing happens
		}
		if p.When != always {
			f.giveIf(s, b, p, v, pos, name)
			return
		}
		if p.Effect == effectFree {
			f.free(s, b, pos)
		} else {
			f.give(s, b, pos, name)
		}
	case effectFill:
		f.fill(s, b, pos)
		if fn := callee(c); fn != nil && f.kinds.primitive(fn) == nil {
			f.perhaps(s, fn, b, v, pos)
		}
	case effectEmpty, effectDrop, effectDrain:
		f.drained(s, b, p, v, pos)
	default:
		f.keep(s, b, pos, "passed to "+name)
		f.giveAway(s, b)
		f.escapePointer(s, a)
	}
}

// viewArgument is bytes passed to a function: a use, and for some functions a write.
func (f *flow) viewArgument(s *state, c *ssa.CallCommon, a ssa.Value, b binding, pos token.Pos) {
	f.look(s, binding{views: b.views}, pos, "used")
	fn := callee(c)
	if fn == nil || fn.Pkg() == nil {
		return
	}
	args := operands(c)
	first := func(i int) bool { return i < len(args) && args[i] == a }
	switch path, name := fn.Pkg().Path(), fn.Name(); {
	case path == "encoding/binary" && len(name) > 3 && name[:3] == "Put":
		if first(0) || first(1) {
			f.write(s, b, pos)
		}
	case path == "io" && (name == "ReadFull" || name == "ReadAtLeast") && first(1),
		path == "crypto/rand" && name == "Read",
		c.IsInvoke() && name == "Read" && first(1):
		f.write(s, b, pos)
	}
}

// free ends references.
func (f *flow) free(s *state, b binding, pos token.Pos) {
	for _, r := range b.refs {
		l := s.lives[r]
		switch l.st {
		case held, foreign, lent:
			if l.key != "" && l.alt != void {
				s.forget(r)
				continue
			}
			if l.st == lent && f.report(s, contradiction, r, pos, "freed") {
				s.forget(r)
				continue
			}
			if l.kept.IsValid() {
				f.report(s, escape, r, l.kept, l.keptIn)
			}
			s.lives[r] = life{st: freed, pos: pos, with: l.with, changes: l.changes, deferer: f.deferring}
			f.unshare(s, r)
		case unknown:
			if r.kind == handle && l.key == "" {
				s.lives[r] = life{st: freed, pos: pos, deferer: f.deferring}
			}
		}
	}
}

// give moves references to somebody else.
func (f *flow) give(s *state, b binding, pos token.Pos, to string) {
	for _, r := range b.refs {
		l := s.lives[r]
		switch l.st {
		case held, foreign, lent:
			if l.key != "" && l.alt != void {
				s.forget(r)
				continue
			}
			if l.st == lent && f.report(s, contradiction, r, pos, to) {
				s.forget(r)
				continue
			}
			s.lives[r] = life{st: given, pos: pos, by: to, with: l.with, changes: l.changes}
		}
	}
}

// unshare notes that r shares memory with no other ref any more.
func (f *flow) unshare(s *state, r *ref) {
	for o, l := range s.lives {
		if i := slices.Index(l.with, r.id); i >= 0 {
			l.with = slices.Delete(slices.Clone(l.with), i, i+1)
			s.lives[o] = l
		}
	}
}

// outcome names the condition on a result of a call.
func (f *flow) outcome(v ssa.Value, w when, at int8) (key string, ok bool) {
	last := resultOf(v, at)
	if last == nil {
		return "", false
	}
	if w == ifNil {
		return "nil(" + f.canon(last) + ")", true
	}
	return "is(" + f.canon(last) + ")", true
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
	for _, u := range *call.Referrers() {
		if e, ok := u.(*ssa.Extract); ok && e.Index == int(at) {
			return e
		}
	}
	return nil
}

// giveIf moves references if the call turns out to have succeeded.
func (f *flow) giveIf(s *state, b binding, p param, v ssa.Value, pos token.Pos, to string) {
	key, ok := f.outcome(v, p.When, p.At)
	for _, r := range b.refs {
		l := s.lives[r]
		if l.st != held && l.st != foreign && l.st != lent {
			continue
		}
		if !ok && l.key == "" && p.When == ifTrue { // who ignores the outcome relies on it
			s.lives[r] = life{st: given, pos: pos, by: to, with: l.with}
			continue
		}
		if !ok || l.key != "" {
			s.forget(r)
			continue
		}
		alt := l.st
		if p.When == ifFalse {
			s.lives[r] = life{st: l.st, pos: pos, by: to, key: key, alt: given, with: l.with}
			continue
		}
		s.lives[r] = life{st: given, pos: pos, by: to, key: key, alt: alt, with: l.with}
		delete(s.facts, key)
		delete(s.alias, key)
	}
}

// fill puts something into a container.
func (f *flow) fill(s *state, b binding, pos token.Pos) {
	f.notMoved(s, b, pos)
	for _, r := range b.refs {
		switch l := s.lives[r]; l.st {
		case foreign, lent:
			l.filled = true
			s.lives[r] = l
		case void, freed:
			if r.kind == container && (r.site == nil || r.param >= 0) {
				s.lives[r] = life{st: foreign, changes: l.changes}
			} else if r.kind == container {
				s.lives[r] = life{st: held, pos: pos, changes: l.changes}
			}
		}
	}
}

// perhaps makes a fill depend on the error of the function that filled: with one, there may be nothing.
func (f *flow) perhaps(s *state, fn *types.Func, b binding, v ssa.Value, pos token.Pos) {
	for _, r := range b.refs {
		l := s.lives[r]
		if r.kind != container || l.st != held || l.pos != pos {
			continue
		}
		out := outcomes(fn.Signature())
		if len(out) == 0 {
			continue
		}
		key, ok := f.outcome(v, out[0].when, out[0].at)
		if !ok {
			s.forget(r)
			continue
		}
		delete(s.facts, key)
		delete(s.alias, key)
		l.key, l.alt = key, void
		s.lives[r] = l
	}
}

// empty is what a call does that takes what a pointer leads to.
func (f *flow) empty(s *state, b binding, p param, v ssa.Value, pos token.Pos) {
	p.Effect = effectDrop
	f.drained(s, b, p, v, pos)
}

// drained takes something out of a container, or all.
func (f *flow) drained(s *state, b binding, p param, v ssa.Value, pos token.Pos) {
	f.notMoved(s, b, pos)
	for _, r := range b.refs {
		l := s.lives[r]
		if l.st == unknown || l.st == given {
			continue
		}
		if p.Effect == effectDrop || p.Effect == effectDrain {
			l.changes++
		}
		switch {
		case p.Effect == effectDrain:
			// How much is left is not followed.
			if l.st == held {
				l.st = unknown
			}
		case p.When == ifNil:
			key, ok := f.outcome(v, p.When, p.At)
			if !ok || l.key != "" || l.st != held {
				l = life{st: min(l.st, unknown), changes: l.changes}
				break
			}
			l = life{st: void, pos: l.pos, key: key, alt: held, changes: l.changes}
		case r.kind == handle:
			l = life{st: freed, pos: pos, changes: l.changes, deferer: f.deferring}
		default:
			l = life{st: void, changes: l.changes}
		}
		s.lives[r] = l
	}
}

// notMoved reports a container that is used after it was copied by value.
func (f *flow) notMoved(s *state, b binding, pos token.Pos) {
	for _, r := range b.refs {
		if l := s.lives[r]; l.by == copiedBy {
			f.report(s, copied, r, pos, "")
			s.forget(r)
		}
	}
}

// results binds what a call returns.
func (f *flow) results(s *state, c *ssa.CallCommon, con *contract, fn *types.Func, sig *types.Signature, args []binding, v ssa.Value, pos token.Pos) {
	n := sig.Results().Len()
	for i := range n {
		at := slot{v, i}
		if n == 1 {
			at.index = -1
		}
		typ := sig.Results().At(i).Type()
		res := con.result(i)
		if f.kinds.kindOf(typ) == untracked && res.Source == resultUnknown {
			delete(s.vals, at)
			f.passViews(s, fn, typ, args, at)
			continue
		}
		switch res.Source {
		case resultMaybe:
			if f.kinds.kindOf(typ) != untracked {
				f.create(s, v, at.index, typ, pos, life{st: foreign})
			}
		case resultOwned:
			l := life{st: held}
			if f.none(s, fn, args, c) {
				l.st = void
			}
			if res.When != always {
				if key, ok := f.outcome(v, res.When, res.At); ok && l.st == held {
					l.key, l.alt = key, void
					delete(s.facts, key)
					delete(s.alias, key)
				} else if res.When == ifNil && n > 1 {
					// The error is ignored: as far as one can see there is none.
					l.key = ""
				}
			}
			if k := f.kinds.kindOf(typ); k == untracked {
				delete(s.vals, at)
				continue
			}
			if out := outcomes(sig); len(out) > 0 && out[0].when == ifNil && l.st == held {
				if key, ok := f.outcome(v, ifNil, out[0].at); ok && key != l.key {
					l.failure = key
					delete(s.facts, key)
					delete(s.alias, key)
				}
			}
			r := f.create(s, v, at.index, typ, pos, l)
			f.moveViews(s, c, fn, args, r)
			if res.Shared && len(args) > int(res.Of) {
				f.share(s, r, args[res.Of])
			}
		case resultSame:
			f.same(s, c, fn, res, args, at, typ, pos, v)
		case resultView:
			delete(s.vals, at)
			var b binding
			for _, r := range args[res.Of].refs {
				if l, ok := s.lives[r]; ok && l.st != unknown && !args[res.Of].part {
					b.views = append(b.views, view{r, l.changes})
				}
			}
			if !b.empty() {
				s.vals[at] = b
			}
		case resultHolder, resultHolding:
			delete(s.vals, at)
			r := f.refAt(refKey{v, -3, ""}, container, pos)
			if l := s.lives[r]; l.st == held {
				f.report(s, leak, r, pos, "loop")
			}
			s.lives[r] = life{st: void}
			if res.Source == resultHolding {
				s.lives[r] = life{st: held}
			}
			s.places[place{v, ""}] = binding{refs: []*ref{r}}
		default:
			delete(s.vals, at)
		}
	}
}

// none reports whether what a primitive returns is the zero Buffer: Get(0), or a method of the zero
// Buffer.
func (f *flow) none(s *state, fn *types.Func, args []binding, c *ssa.CallCommon) bool {
	if fn == nil || f.kinds.primitive(fn) == nil {
		return false
	}
	vars := operands(c)
	if fn.Name() == "Get" && len(vars) == 2 {
		if isZero(vars[1]) {
			return true
		}
		value, ok := s.learned(f.canon(vars[1]) + "==" + zero)
		return ok && value
	}
	if len(vars) == 0 || f.kinds.kindOf(vars[0].Type()) != handle {
		return false
	}
	if k, ok := vars[0].(*ssa.Const); ok && k.Value == nil {
		return true
	}
	b := args[0]
	return len(b.refs) == 1 && s.lives[b.refs[0]].st == void
}

// zero is how conditions write the length 0.
var zero = ssa.NewConst(intValue(0), types.Typ[types.Int]).String()

// passViews binds bytes that a function returns of bytes that it was given.
func (f *flow) passViews(s *state, fn *types.Func, typ types.Type, args []binding, at slot) {
	if fn == nil || fn.Pkg() == nil || !parts[fn.Pkg().Path()+"."+fn.Name()] || !isBytes(typ) || len(args) == 0 {
		return
	}
	if b := args[0]; len(b.views) > 0 {
		s.vals[at] = binding{views: b.views}
	}
}

// moveViews lets views of a handle that was taken live on with the one that is returned for it: the
// same memory. Where there are two, or perhaps other memory, they are not followed any further.
func (f *flow) moveViews(s *state, c *ssa.CallCommon, fn *types.Func, args []binding, r *ref) {
	if r.kind != handle {
		return
	}
	for i, a := range operands(c) {
		if f.kinds.kindOf(a.Type()) != handle || len(args[i].refs) != 1 || s.lives[args[i].refs[0]].st != given {
			continue
		}
		old := args[i].refs[0]
		var now *ref
		if fn != nil && (fn.Name() == "Narrow" || fn.Name() == "Join" || strings.HasPrefix(fn.Name(), "Grow")) {
			now = r
		}
		for v, b := range s.vals {
			s.vals[v] = b.reviewed(old, now)
		}
		for p, b := range s.places {
			s.places[p] = b.reviewed(old, now)
		}
	}
}

func ignored(v ssa.Value) bool { return v == nil || len(*v.Referrers()) == 0 }

// dropViews stops following views of refs.
func (f *flow) dropViews(s *state, b binding) {
	for _, r := range b.refs {
		for v, c := range s.vals {
			s.vals[v] = c.reviewed(r, nil)
		}
		for p, c := range s.places {
			s.places[p] = c.reviewed(r, nil)
		}
	}
}

// reviewed is b with views of one ref made views of another, or left out if that is nil.
func (b binding) reviewed(from, to *ref) binding {
	if !slices.ContainsFunc(b.views, func(v view) bool { return v.of == from }) {
		return b
	}
	views := []view{}
	for _, v := range b.views {
		switch {
		case v.of != from:
			views = append(views, v)
		case to != nil:
			views = append(views, view{of: to})
		}
	}
	b.views = views
	return b
}

// share notes that r sees the memory of another reference.
func (f *flow) share(s *state, r *ref, with binding) {
	for _, o := range with.refs {
		l := s.lives[o]
		if l.st == unknown || o.kind != handle {
			continue
		}
		l.with = append(slices.Clip(l.with), r.id)
		s.lives[o] = l
		n := s.lives[r]
		n.with = append(slices.Clip(n.with), o.id)
		s.lives[r] = n
	}
}

// same binds the result of Join and its like: the same reference, seen anew if the call succeeded.
func (f *flow) same(s *state, c *ssa.CallCommon, fn *types.Func, res result, args []binding, at slot, typ types.Type, pos token.Pos, v ssa.Value) {
	delete(s.vals, at)
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
			f.moveViews(s, c, fn, args, f.create(s, v, at.index, typ, pos, life{st: held}))
		}
		return
	}
	if l.key != key || l.alt != held {
		if l.st != unknown && l.key == key { // a parameter's or a field's
			s.lives[old] = life{}
		}
		return
	}
	f.moveViews(s, c, fn, args, f.create(s, v, at.index, typ, pos, life{st: held, key: key, alt: unknown, same: old}))
}
