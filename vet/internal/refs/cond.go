package refs

import (
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/kinds"
)

// This file handles conditions of branches. Equal conditions have the same key, so that the second test of
// the same error takes the branch of the first.

// truth is the value of a condition.
type truth = bool

// test is the condition that a bool tests, and whether the bool is true if that holds.
func (f *function) test(v ssa.Value) (c *conditions.Condition, positive truth) {
	return f.table.Test(v, f.term)
}

// isNil is the condition that a value is nil.
func (f *function) isNil(v ssa.Value) *conditions.Condition { return f.table.Nil(f.term(v)) }

// lengthOf returns x when v is len(x) or x.Len().
func lengthOf(v ssa.Value) ssa.Value {
	call, ok := v.(*ssa.Call)
	if !ok {
		return nil
	}
	if b, ok := call.Call.Value.(*ssa.Builtin); ok && b.Name() == "len" {
		return call.Call.Args[0]
	}
	if fn := call.Call.StaticCallee(); fn != nil && fn.Name() == "Len" && len(call.Call.Args) == 1 {
		return call.Call.Args[0]
	}
	return nil
}

// isZero reports whether a value is the constant 0.
func isZero(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	if !ok || c.Value == nil || c.Value.Kind() != constant.Int {
		return false
	}
	n, exact := constant.Int64Val(c.Value)
	return exact && n == 0
}

// term names a value so that values that the analysis finds equal have the same name: loads of one variable, lengths of one
// slice.
func (f *function) term(v ssa.Value) *conditions.Term {
	switch v := v.(type) {
	case *ssa.UnOp:
		if v.Op == token.MUL {
			if p, ok := f.placeOf(v.X); ok {
				return f.table.Load(p)
			}
		}
	case *ssa.Call:
		if x := lengthOf(v); x != nil {
			return f.table.Of(conditions.Length, f.term(x))
		}
		if fn := v.Call.StaticCallee(); fn != nil && len(v.Call.Args) == 1 && f.kinds.Of(v.Call.Args[0].Type()) == kinds.Handle {
			return f.table.Method(fn.Name(), f.term(v.Call.Args[0]))
		}
	case *ssa.ChangeType:
		return f.term(v.X)
	case *ssa.Convert:
		return f.table.Of(conditions.Converted, f.term(v.X))
	}
	return f.table.Value(v)
}

// changes reports whether a term may be another one in the next iteration of a loop, although what it depends on is the same.
func changes(t *conditions.Term) bool {
	return t.Form == conditions.Load || t.Form == conditions.Method && (t.Text == "Unique" || strings.HasSuffix(t.Text, "room"))
}

// root resolves aliases of a condition.
func (s *state) root(c *conditions.Condition) *conditions.Condition {
	for range 8 {
		next, ok := s.alias[c]
		if !ok {
			break
		}
		c = next
	}
	return c
}

// learned returns the known value of a condition.
func (s *state) learned(c *conditions.Condition) (value, ok bool) {
	if value, ok = s.Facts[c]; ok {
		return value, ok
	}
	value, ok = s.Facts[s.root(c)]
	return value, ok
}

// unlearn forgets what is known of a condition: its terms have new values.
func (s *state) unlearn(c *conditions.Condition) {
	delete(s.Facts, c)
	delete(s.alias, c)
}

// learn records that a condition holds or not, and resolves the states that depend on it.
func (s *state) learn(c *conditions.Condition, value truth) {
	s.Facts[c] = value
	if r := s.root(c); r != c {
		s.Facts[r] = value
		s.resolve(r, value)
	}
	s.resolve(c, value)
	if value {
		s.exclude(c)
	}
}

// exclude resolves what depends on a value being another constant than the one that it is by a condition that holds: on
// another case of a select statement.
func (s *state) exclude(c *conditions.Condition) {
	for _, l := range s.lives {
		if l.key.Excludes(c) {
			s.Facts[l.key] = false
			s.resolve(l.key, false)
		}
	}
}

func (s *state) resolve(c *conditions.Condition, value truth) {
	for r, l := range s.lives {
		if l.failure == c && !value && l.st == held {
			s.lives[r] = life{st: void}
			continue
		}
		if l.key != c {
			continue
		}
		l.key = nil
		if !value {
			l.st, l.sent = l.alt, false
			if l.same != nil {
				same := l.same
				l.same = nil
				s.lives[r] = life{st: void}
				s.replace(r, same)
				continue
			}
		}
		l.same = nil
		s.lives[r] = l
	}
}

// replace rebinds everything bound to from to to.
func (s *state) replace(from, to *ref) {
	s.Change(func(b binding) (binding, bool) { return binding{refs: []*ref{to}, views: b.views}, b.has(from) })
}

// constantFact returns what valueOf does for a value that is the same on every path.
func (f *function) constantFact(v ssa.Value) (value, ok bool) {
	switch v := v.(type) {
	case *ssa.Const:
		if v.IsNil() {
			return true, true
		}
		if v.Value != nil && v.Value.Kind() == constant.Bool {
			return constant.BoolVal(v.Value), true
		}
	case *ssa.MakeInterface, *ssa.Alloc, *ssa.MakeClosure, *ssa.MakeMap, *ssa.MakeChan, *ssa.MakeSlice, *ssa.Function:
		return false, true
	case *ssa.Call:
		if f.contractOf(&v.Call).NeverNil() && v.Call.Signature().Results().Len() == 1 {
			return false, true
		}
	case *ssa.UnOp:
		// A package's error variable is not nil.
		if g, ok := v.X.(*ssa.Global); ok && v.Op == token.MUL && code.IsError(g.Type().(*types.Pointer).Elem()) {
			return false, true
		}
	}
	return false, false
}

// fact is the condition that a bool, an error or a pointer itself is, and whether the bool is true if that holds.
func (f *function) fact(v ssa.Value) (c *conditions.Condition, positive truth) {
	if code.IsBool(v.Type()) {
		return f.test(v)
	}
	return f.isNil(v), true
}

// valueOf is what is known of a bool (is it true) or of an error or pointer (is it nil).
func (f *function) valueOf(s *state, v ssa.Value) (value, ok bool) {
	if value, ok := f.constantFact(v); ok {
		return value, true
	}
	c, positive := f.fact(v)
	if value, ok := s.learned(c); ok {
		return value == positive, true
	}
	return false, false
}

// implied learns the consequences of a branch beyond its condition: a value that equals a sentinel error, or
// for which errors.Is is true, is not nil; a Buffer that is zero or empty has nothing to free.
func (f *function) implied(s *state, v ssa.Value, taken truth) {
	for {
		not, ok := v.(*ssa.UnOp)
		if !ok || not.Op != token.NOT {
			break
		}
		v, taken = not.X, !taken
	}
	switch v := v.(type) {
	case *ssa.BinOp:
		if (v.Op == token.EQL) == taken && (v.Op == token.EQL || v.Op == token.NEQ) {
			for _, pair := range [2][2]ssa.Value{{v.X, v.Y}, {v.Y, v.X}} {
				if !code.IsError(pair[0].Type()) || code.IsNil(pair[1]) || code.IsNil(pair[0]) {
					continue
				}
				if null, ok := f.valueOf(s, pair[1]); ok && !null {
					s.learn(f.isNil(pair[0]), false)
				}
			}
		}
		if (v.Op == token.EQL) == taken && (v.Op == token.EQL || v.Op == token.NEQ) && isZero(v.Y) {
			f.gotNothing(s, v.X)
		}
		c, positive := f.test(v)
		x := lengthOf(v.X)
		if x == nil {
			x = lengthOf(v.Y)
		}
		switch {
		case c.Op == conditions.Empty && taken == positive:
			f.nothingIn(s, x, byLength)
		case x != nil && f.kinds.Of(x.Type()) == kinds.Handle:
			f.found(s, f.refsOf(s, x))
		}
	case *ssa.Call:
		fn := v.Call.StaticCallee()
		if fn == nil || len(v.Call.Args) == 0 {
			return
		}
		switch arg := v.Call.Args[0]; {
		case taken && fn.Pkg != nil && fn.Pkg.Pkg.Path() == "errors" && (fn.Name() == "Is" || fn.Name() == "As"):
			s.learn(f.isNil(arg), false)
		case taken && fn.Name() == "IsZero":
			f.nothingIn(s, arg, "")
		case fn.Name() == "IsZero":
			f.found(s, f.refsOf(s, arg))
		case taken && fn.Name() == "Unique":
			for _, r := range f.refsOf(s, arg).refs {
				l := s.lives[r]
				l.with = nil
				s.lives[r] = l
			}
		}
	case *ssa.Extract:
		// A case that received from a closed channel.
		if sel, ok := v.Tuple.(*ssa.Select); ok && !taken && v.Index == 1 {
			for r, l := range s.lives {
				if r.site == ssa.Value(sel) && l.st == held {
					s.lives[r] = life{st: void}
				}
			}
		}
		// A type assertion on an error that succeeded.
		if a, ok := v.Tuple.(*ssa.TypeAssert); ok && taken && v.Index == 1 {
			s.learn(f.isNil(a.X), false)
		}
	}
}

// byLength marks a reference whose length was found to be 0. It is taken to have nothing to free, although an
// empty reference may hold memory.
const byLength = "\x00length"

// nothingIn records that a handle or container was found empty.
func (f *function) nothingIn(s *state, v ssa.Value, by string) {
	if v == nil {
		return
	}
	b := f.refsOf(s, v)
	if b.part {
		return
	}
	for _, r := range b.refs {
		if l := s.lives[r]; l.st == held || l.st == foreign || l.st == lent {
			s.lives[r] = life{st: void, by: by}
		}
	}
}

// gotNothing records that a length was 0, for which Get returns the zero Buffer.
func (f *function) gotNothing(s *state, n ssa.Value) {
	for r, l := range s.lives {
		call, ok := r.site.(*ssa.Call)
		if !ok || l.st != held {
			continue
		}
		if vars := code.Operands(&call.Call); calleeName(&call.Call) == "Get" && len(vars) == 2 && vars[1] == n {
			s.lives[r] = life{st: void}
		}
	}
}
