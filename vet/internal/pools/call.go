package pools

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/poolfile"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// call runs a call. It returns false if that does not return.
func (f *function) call(s *state, c *ssa.CallCommon, v *ssa.Call, pos token.Pos) bool {
	if b, ok := c.Value.(*ssa.Builtin); ok {
		f.builtin(s, b.Name(), c, v, pos)
		return true
	}
	var args []Binding
	for _, a := range code.Operands(c) {
		args = append(args, f.refs(s, a))
	}
	return f.apply(s, c, args, v, pos)
}

// apply applies the effects of a call. v is nil for a deferred one.
func (f *function) apply(s *state, c *ssa.CallCommon, args []Binding, v *ssa.Call, pos token.Pos) bool {
	if b, ok := c.Value.(*ssa.Builtin); ok {
		f.builtin(s, b.Name(), c, v, pos)
		return true
	}
	fn := code.Callee(c)
	if stdlib.NeverReturns(fn) {
		return false
	}
	vars := code.Operands(c)
	name := f.callText(c)
	if list := f.Contracts.Lookup(fn); len(list) > 0 {
		f.contract(s, list, vars, args, name, v, pos)
		return true
	}
	sum := f.summaryOf(c)
	if sum != nil && sum.NoReturn {
		return false
	}
	ends := map[int]bool{}
	if sum != nil {
		for _, e := range sum.Ends {
			if e.Arg < len(vars) {
				ends[e.Arg] = true
			}
		}
	}
	retains := isRetain(fn)
	for i, b := range args {
		if _, variable := vars[i].(*ssa.Alloc); variable && i >= len(c.Args) && !c.IsInvoke() {
			continue // captured by a literal
		}
		if ends[i] || retains && i == 0 && f.retain(s, f.promoted(s, b, vars[i]), vars[i]) {
			continue
		}
		f.look(s, b, pos, "passed to "+name)
	}
	contents := map[int]Binding{}
	if sum != nil {
		for i, e := range sum.Ends {
			if e.Content && e.Arg < len(vars) {
				contents[i] = f.content(s, vars[e.Arg], places.PathOf(e.Path...))
			}
		}
	}
	if !f.pure(fn) {
		f.clobber(s, c, vars, args, sum)
	}
	if sum != nil {
		for i, e := range sum.Ends {
			switch {
			case e.Arg >= len(vars):
			case e.Content:
				if p, ok := s.placeOf(vars[e.Arg]); ok && len(contents[i]) > 0 {
					s.Mem[p.Join(places.PathOf(e.Path...))] = contents[i]
				}
				f.end(s, contents[i], nil, pos, name)
			default:
				f.give(s, args[e.Arg], vars[e.Arg], pos, name)
			}
		}
	}
	if v != nil {
		f.results(s, fn, sum, vars, args, v)
	}
	return true
}

// contract applies the effects that a contract states.
func (f *function) contract(s *state, list []poolfile.Call, vars []ssa.Value, args []Binding, name string, v *ssa.Call, pos token.Pos) {
	subject := map[int]bool{}
	for _, e := range list {
		subject[e.Arg] = e.Effect == poolfile.Release
	}
	for i, b := range args {
		if !subject[i] {
			f.look(s, b, pos, "used by "+name)
		}
	}
	for _, e := range list {
		if e.Arg >= len(vars) {
			continue
		}
		switch b := args[e.Arg]; e.Effect {
		case poolfile.Release:
			f.give(s, b, vars[e.Arg], pos, name)
		case poolfile.Retain:
			f.retain(s, f.promoted(s, b, vars[e.Arg]), vars[e.Arg])
		case poolfile.Invalidate:
			for _, r := range b {
				if st := s.objs[r.Of]; r.Mode != Inside {
					st.epoch++
					st.stale, st.staleBy = pos, name
					s.objs[r.Of] = st
				}
			}
		case poolfile.View:
			if v != nil {
				f.view(s, b, v)
			}
		}
	}
}

// view binds the results of a call that are bytes of b.
func (f *function) view(s *state, b Binding, v *ssa.Call) {
	var views Binding
	for _, r := range b {
		if r.Mode != Inside && !s.objs[r.Of].parted {
			views = append(views, Ref{Of: r.Of, Mode: View, epoch: s.objs[r.Of].epoch})
		}
	}
	res := v.Call.Signature().Results()
	for i := range res.Len() {
		if code.IsError(res.At(i).Type()) || !leadsToBytes(res.At(i).Type()) && !tracked(res.At(i).Type()) {
			continue
		}
		at := flow.Slot{Value: v, Index: i}
		if res.Len() == 1 {
			at.Index = -1
		}
		s.Vals[at] = views
	}
}

// holds binds the first result of a call to what leads to b, beside being a reference of its own.
func (f *function) holds(s *state, b Binding, v *ssa.Call) {
	var result Binding
	at := flow.Slot{Value: v, Index: 0}
	if v.Call.Signature().Results().Len() == 1 {
		at.Index = -1
		result = Binding{{Of: f.object(s, v, places.Path{})}}
	}
	for _, r := range b {
		if r.Mode == Self {
			r.epoch = s.objs[r.Of].epoch
		}
		r.Mode = Inside
		result = result.join(Binding{r})
	}
	s.Vals[at] = result
}

// retain records another reference of an object, or makes a view one of its own. It returns false if there is
// nothing to retain.
func (f *function) retain(s *state, b Binding, v ssa.Value) bool {
	for _, r := range b {
		switch r.Mode {
		case View:
			st := s.objs[r.Of]
			st.parted = true
			s.objs[r.Of] = st
			s.Vals[flow.Of(v)] = Binding{{Of: f.object(s, v, places.PathOf(places.Step{Kind: places.Field, N: -1}))}}
			return true
		case Self:
			st := s.objs[r.Of]
			if st.ended.IsValid() {
				return false
			}
			st.extra++
			s.objs[r.Of] = st
			return true
		}
	}
	return false
}

// retainers are names of methods that add a reference, in projects of which there is no contract.
var retainers = map[string]bool{"Retain": true, "Ref": true, "AddRef": true, "IncRef": true, "IncrRef": true, "Incref": true, "Hold": true, "ref": true}

func isRetain(fn *types.Func) bool {
	return fn != nil && fn.Signature().Recv() != nil && retainers[fn.Name()]
}

// content is what is in a part of the memory to which an argument points.
func (f *function) content(s *state, v ssa.Value, path places.Path) Binding {
	p, ok := s.placeOf(v)
	if !ok {
		return nil
	}
	p = p.Join(path)
	if b, ok := s.Mem[p]; ok {
		return b
	}
	if p.Variable() && !f.leaked[p.Root.(*ssa.Alloc)] {
		return nil // never stored to
	}
	o := f.object(s, p.Root, p.Path.With(places.Step{Kind: places.Field, N: -2}))
	o.from, o.found = p, true
	delete(s.objs, o) // another one may have been there before
	b := Binding{{Of: o}}
	s.Mem[p] = b
	return b
}

// give ends the references of an argument.
func (f *function) give(s *state, b Binding, v ssa.Value, pos token.Pos, by string) {
	if mi, ok := v.(*ssa.MakeInterface); ok {
		v = mi.X
	}
	b = f.promoted(s, b, v)
	from := loadedFrom(s, v, nil)
	// What a pointer to a slice points to goes to the pool with it.
	if ptr, ok := v.Type().Underlying().(*types.Pointer); ok {
		if _, slice := ptr.Elem().Underlying().(*types.Slice); slice {
			if p, ok := s.placeOf(v); ok {
				b = b.join(s.Mem[p])
				from = append(from, p)
			}
		}
	}
	f.end(s, b, from, pos, by)
}

// loadedFrom appends the places from which a value was loaded, on this path or on another one.
func loadedFrom(s *state, v ssa.Value, at []places.Place) []places.Place {
	const most = 8 // a phi can be its own edge
	if len(at) >= most {
		return at
	}
	switch v := v.(type) {
	case *ssa.UnOp:
		if v.Op == token.MUL {
			if p, ok := s.placeOf(v.X); ok {
				at = append(at, p)
			}
		}
	case *ssa.Phi:
		for _, e := range v.Edges {
			if load, ok := e.(*ssa.UnOp); ok {
				at = loadedFrom(s, load, at)
			}
		}
	case *ssa.MakeInterface:
		return loadedFrom(s, v.X, at)
	case *ssa.ChangeInterface:
		return loadedFrom(s, v.X, at)
	case *ssa.ChangeType:
		return loadedFrom(s, v.X, at)
	case *ssa.TypeAssert:
		return loadedFrom(s, v.X, at)
	case *ssa.Extract:
		if a, ok := v.Tuple.(*ssa.TypeAssert); ok {
			return loadedFrom(s, a.X, at)
		}
	}
	return at
}

// end ends the references of a binding that was loaded from one of some places: if it was kept in one of these, that is
// what was released.
func (f *function) end(s *state, b Binding, from []places.Place, pos token.Pos, by string) {
	if f.counted(s) {
		b = slices.DeleteFunc(slices.Clone(b), func(r Ref) bool {
			if _, param := r.Of.value.(*ssa.Parameter); param {
				return false // this function is the one that callers rely on
			}
			f.forget(s, r.Of)
			return true
		})
	}
	done := map[*Object]bool{}
	for _, r := range b {
		if r.Mode == Inside || r.Mode == View && (r.from.Root == nil || !r.from.Whole()) || done[r.Of] {
			continue
		}
		done[r.Of] = true
		st := s.objs[r.Of]
		switch {
		case st.epoch < 0: // reported
		case st.extra > 0:
			st.extra--
			s.objs[r.Of] = st
		case st.ended.IsValid():
			f.twice(s, r, st, pos, by)
			f.forget(s, r.Of)
		default:
			now := status{ended: pos, by: by, deferred: f.deferring, epoch: st.epoch}
			switch {
			case !st.kept.pos.IsValid() || slices.Contains(from, st.kept.at):
			case st.kept.at.Root == nil: // sent, or used by a goroutine
				f.escaped(s, r.Of, st, pos, by)
			default: // the place may be overwritten yet
				now.kept = st.kept
			}
			s.objs[r.Of] = now
		}
	}
}

// remains reports an object that was given up and is still where it was stored.
func (f *function) remains(s *state, o *Object) {
	if st := s.objs[o]; st.remains() {
		f.escaped(s, o, st, st.ended, st.by)
		st.kept = custody{}
		s.objs[o] = st
	}
}

// promoted is the binding of the struct in which v, the receiver of a promoted method, is embedded.
func (f *function) promoted(s *state, b Binding, v ssa.Value) Binding {
	for {
		at, ok := v.(*ssa.FieldAddr)
		if !ok {
			return b
		}
		owner, ok := at.X.Type().Underlying().(*types.Pointer)
		if !ok {
			return b
		}
		if st, ok := owner.Elem().Underlying().(*types.Struct); !ok || !st.Field(at.Field).Embedded() {
			return b
		}
		v = at.X
		b = f.refs(s, v)
	}
}

// counted reports whether the last decision on the path was whether a count of references has reached zero: what is done
// then says nothing of the paths that go on.
func (f *function) counted(s *state) bool { return s.Trail != nil && counts(s.Trail.Branch.Cond, 0) }

func counts(v ssa.Value, depth int) bool {
	if depth > 6 {
		return false
	}
	switch v := v.(type) {
	case *ssa.BinOp:
		return counts(v.X, depth+1) || counts(v.Y, depth+1)
	case *ssa.UnOp:
		return v.Op == token.NOT && counts(v.X, depth+1)
	case *ssa.Call:
		fn := code.Callee(&v.Call)
		if fn == nil || fn.Pkg() == nil {
			return false
		}
		name := strings.ToLower(fn.Name())
		return fn.Pkg().Path() == "sync/atomic" && (strings.Contains(name, "add") || strings.Contains(name, "swap")) ||
			strings.Contains(name, "unref") || strings.HasPrefix(name, "dec") || name == "free" || name == "release"
	}
	return false
}

// clobber forgets what an unknown function may have changed.
func (f *function) clobber(s *state, c *ssa.CallCommon, vars []ssa.Value, args []Binding, sum *Summary) {
	f.waited(s)
	roots := map[ssa.Value]bool{}
	dynamic := code.Callee(c) == nil
	for _, a := range vars {
		if mi, ok := a.(*ssa.MakeInterface); ok {
			a = mi.X
		}
		roots[s.original(a)] = true
		if p, ok := s.placeOf(a); ok {
			roots[p.Root] = true
			if p.Variable() && sum == nil {
				s.Remove(func(q places.Place) bool { return q.Within(p) })
				for q := range s.loads {
					if q.Within(p) {
						delete(s.loads, q)
					}
				}
			}
		}
	}
	locks := isLock(code.Callee(c))
	for o, st := range s.objs {
		if st.kept.at.Root == nil || locks && st.remains() {
			continue
		}
		if _, global := st.kept.at.Root.(*ssa.Global); dynamic || global || roots[st.kept.at.Root] {
			st.kept = custody{}
			s.objs[o] = st
		}
	}
	// A method may have taken a field of its receiver out of it.
	for _, b := range args {
		for _, r := range b {
			if r.Mode == Self {
				s.detach(func(q Ref) bool { return q.Of == r.Of && q.from.Root != nil })
			}
		}
	}
	f.forgetLoads(s)
}

// isLock reports whether a function is one of package sync, which changes no memory but its receiver.
func isLock(fn *types.Func) bool { return fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "sync" }

// results binds the results of a call.
func (f *function) results(s *state, fn *types.Func, sum *Summary, vars []ssa.Value, args []Binding, v *ssa.Call) {
	switch {
	case stdlib.Part(fn):
		f.view(s, args[0].with(View), v)
		return
	case stdlib.Holds(fn):
		f.holds(s, args[0], v)
		return
	}
	if sum == nil {
		return
	}
	for _, r := range sum.Views {
		if r.Arg >= len(args) {
			continue
		}
		at := flow.Slot{Value: v, Index: r.Result}
		if v.Call.Signature().Results().Len() == 1 {
			at.Index = -1
		}
		var b Binding
		for _, q := range args[r.Arg] {
			if q.Mode == Self || q.Mode == View {
				q.Mode, q.epoch = View, s.objs[q.Of].epoch
				b = append(b, q)
			}
		}
		s.Vals[at] = b
	}
}

// builtin runs a built-in function.
func (f *function) builtin(s *state, name string, c *ssa.CallCommon, v *ssa.Call, pos token.Pos) {
	arg := func(i int) Binding { return f.refs(s, c.Args[i]) }
	switch name {
	case "append":
		dst := arg(0)
		if code.IsNil(c.Args[0]) {
			dst = nil
		}
		var src Binding
		if len(c.Args) > 1 {
			src = arg(1)
		}
		if basic := ofBasic(c.Args[0].Type()); basic {
			f.look(s, dst.join(src), pos, "used by append")
		}
		b := dst
		if !ofBasic(c.Args[0].Type()) {
			b = slices.DeleteFunc(slices.Clone(b), func(r Ref) bool { _, ended := s.ended(r); return ended })
		}
		if elem, ok := c.Args[0].Type().Underlying().(*types.Slice); ok && !basicElem(elem) {
			b = b.join(src.with(Inside))
		}
		if v != nil {
			s.Vals[flow.Of(v)] = b
		}
	case "copy":
		if ofBasic(c.Args[0].Type()) {
			f.look(s, arg(0).join(arg(1)), pos, "copied")
		}
	case "clear":
		if ofBasic(c.Args[0].Type()) {
			f.look(s, arg(0), pos, "cleared")
		}
	case "delete":
		s.released(func(k custody) bool { return k.how == "stored in a map" })
	case "String", "StringData", "Slice", "SliceData": // of package unsafe
		if v != nil {
			s.Vals[flow.Of(v)] = arg(0).with(View)
		}
	case "Add":
		if v != nil {
			s.Vals[flow.Of(v)] = arg(0)
		}
	}
}

// ofBasic reports whether the type is a slice of bytes, numbers or strings: a slice of references is not pooled itself
// when the references in it are.
func ofBasic(t types.Type) bool {
	s, ok := t.Underlying().(*types.Slice)
	return ok && basicElem(s)
}

// computing are packages whose functions change no memory but that of their arguments, and wait for nothing.
var computing = map[string]bool{
	"bytes": true, "cmp": true, "encoding/binary": true, "encoding/hex": true, "errors": true, "math": true, "math/bits": true,
	"strconv": true, "strings": true, "unicode": true, "unicode/utf8": true, "unsafe": true, "sync/atomic": true,
}

func (f *function) pure(fn *types.Func) bool {
	return fn != nil && (fn.Pkg() == nil || computing[fn.Pkg().Path()])
}
