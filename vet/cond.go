package vet

import (
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
)

// This file handles conditions of branches. Equal conditions have the same key, so that the second test of
// the same error takes the branch of the first.

// truth is the value of a condition.
type truth = bool

// condition is a key and whether the branch taken on true means that it holds. subjects are the values whose
// redefinition invalidates it.
type condition struct {
	key      string
	positive bool
	subjects []ssa.Value
}

func (f *flow) condition(v ssa.Value) condition {
	switch v := v.(type) {
	case *ssa.UnOp:
		if v.Op == token.NOT {
			c := f.condition(v.X)
			c.positive = !c.positive
			return c
		}
	case *ssa.BinOp:
		x, y := f.canon(v.X), f.canon(v.Y)
		subjects := append(f.subjects(v.X), f.subjects(v.Y)...)
		if code.IsNil(v.X) {
			x, y = y, x
		}
		switch v.Op {
		case token.EQL, token.NEQ:
			if y == "nil" {
				return condition{"nil(" + x + ")", v.Op == token.EQL, subjects}
			}
			if k, ok := zeroLength(v.X, v.Y); ok {
				return condition{"empty(" + f.canon(k) + ")", v.Op == token.EQL, subjects}
			}
			return condition{x + "==" + y, v.Op == token.EQL, subjects}
		case token.LSS, token.GEQ:
			return f.order(v.X, v.Y, v.Op == token.LSS, subjects)
		case token.GTR, token.LEQ:
			return f.order(v.Y, v.X, v.Op == token.GTR, subjects)
		}
	}
	return condition{"is(" + f.canon(v) + ")", true, f.subjects(v)}
}

// order is x < y, or its opposite.
func (f *flow) order(x, y ssa.Value, positive truth, subjects []ssa.Value) condition {
	if isZero(x) && lengthOf(y) != nil { // 0 < len
		return condition{"empty(" + f.canon(lengthOf(y)) + ")", !positive, subjects}
	}
	if isOne(y) && lengthOf(x) != nil { // len < 1
		return condition{"empty(" + f.canon(lengthOf(x)) + ")", positive, subjects}
	}
	return condition{f.canon(x) + "<" + f.canon(y), positive, subjects}
}

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

func zeroLength(x, y ssa.Value) (ssa.Value, bool) {
	if isZero(y) && lengthOf(x) != nil {
		return lengthOf(x), true
	}
	if isZero(x) && lengthOf(y) != nil {
		return lengthOf(y), true
	}
	return nil, false
}

func isZero(v ssa.Value) bool { return isInt(v, 0) }
func isOne(v ssa.Value) bool  { return isInt(v, 1) }

func isInt(v ssa.Value, n int64) bool {
	c, ok := v.(*ssa.Const)
	if !ok || c.Value == nil || c.Value.Kind() != constant.Int {
		return false
	}
	i, exact := constant.Int64Val(c.Value)
	return exact && i == n
}

// canon names a value so that values that the analysis finds equal have the same name:
// loads of one variable, lengths of one slice.
func (f *flow) canon(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.Const:
		if v.IsNil() {
			return "nil"
		}
		return v.String()
	case *ssa.UnOp:
		if v.Op == token.MUL {
			if p, ok := f.placeOf(v.X); ok {
				return "*" + strconv.Itoa(f.number(p.root)) + p.path
			}
		}
	case *ssa.Call:
		if x := lengthOf(v); x != nil {
			return "len(" + f.canon(x) + ")"
		}
		if fn := v.Call.StaticCallee(); fn != nil && len(v.Call.Args) == 1 && f.kinds.kindOf(v.Call.Args[0].Type()) == handle {
			return fn.Name() + "(" + f.canon(v.Call.Args[0]) + ")"
		}
	case *ssa.ChangeType:
		return f.canon(v.X)
	case *ssa.Convert:
		return "conv(" + f.canon(v.X) + ")"
	}
	return strconv.Itoa(f.number(v))
}

// subjects are the values on which a name depends.
func (f *flow) subjects(v ssa.Value) []ssa.Value {
	switch w := v.(type) {
	case *ssa.Const:
		return nil
	case *ssa.UnOp:
		if w.Op == token.MUL {
			if p, ok := f.placeOf(w.X); ok {
				return []ssa.Value{p.root}
			}
		}
	case *ssa.Call:
		if x := lengthOf(w); x != nil {
			return f.subjects(x)
		}
		if len(w.Call.Args) == 1 && f.kinds.kindOf(w.Call.Args[0].Type()) == handle {
			return f.subjects(w.Call.Args[0])
		}
	case *ssa.ChangeType:
		return f.subjects(w.X)
	case *ssa.Convert:
		return f.subjects(w.X)
	}
	return []ssa.Value{v}
}

// root resolves aliases of a condition.
func (s *state) root(key string) string {
	for range 8 {
		next, ok := s.alias[key]
		if !ok {
			break
		}
		key = next
	}
	return key
}

// learned returns the known value of a condition.
func (s *state) learned(key string) (value, ok bool) {
	if value, ok = s.facts[key]; ok {
		return value, ok
	}
	value, ok = s.facts[s.root(key)]
	return value, ok
}

// learn records that a condition holds or not, and resolves the states that depend on it.
func (s *state) learn(key string, value truth) {
	s.facts[key] = value
	if r := s.root(key); r != key {
		s.facts[r] = value
		s.resolve(r, value)
	}
	s.resolve(key, value)
	if value {
		s.exclude(key)
	}
}

// exclude resolves what depends on a value being another constant than the one that it is by a condition that holds: on
// another case of a select statement.
func (s *state) exclude(key string) {
	x, y, ok := strings.Cut(key, "==")
	if !ok || !isConstName(y) {
		return
	}
	for _, l := range s.lives {
		if other, z, ok := strings.Cut(l.key, "=="); ok && other == x && z != y && isConstName(z) {
			s.facts[l.key] = false
			s.resolve(l.key, false)
		}
	}
}

// isConstName reports whether a name that canon gave is a constant's, "1:int".
func isConstName(name string) bool { return strings.Contains(name, ":") }

func (s *state) resolve(key string, value truth) {
	for r, l := range s.lives {
		if l.failure == key && !value && l.st == held {
			s.lives[r] = life{st: void}
			continue
		}
		if l.key != key {
			continue
		}
		l.key = ""
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
	for v, b := range s.vals {
		if b.has(from) {
			s.vals[v] = binding{refs: []*ref{to}, views: b.views}
		}
	}
	for p, b := range s.places {
		if b.has(from) {
			s.places[p] = binding{refs: []*ref{to}, views: b.views}
		}
	}
}

// constantFact returns what valueOf does for a value that is the same on every path.
func (f *flow) constantFact(v ssa.Value) (value, ok bool) {
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
		if f.contractOf(&v.Call).nonNil() && v.Call.Signature().Results().Len() == 1 {
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

func (c *contract) nonNil() bool { return c != nil && c.NonNil }

// factKey is the condition that a bool, an error or a pointer itself is.
func (f *flow) factKey(v ssa.Value) string {
	if code.IsBool(v.Type()) {
		c := f.condition(v)
		if c.positive {
			return c.key
		}
		return "!" + c.key
	}
	return "nil(" + f.canon(v) + ")"
}

// valueOf is what is known of a bool (is it true) or of an error or pointer (is it nil).
func (f *flow) valueOf(s *state, v ssa.Value) (value, ok bool) {
	if value, ok := f.constantFact(v); ok {
		return value, true
	}
	if code.IsBool(v.Type()) {
		c := f.condition(v)
		if value, ok := s.learned(c.key); ok {
			return value == c.positive, true
		}
		return false, false
	}
	return s.learned("nil(" + f.canon(v) + ")")
}

// implied learns the consequences of a branch beyond its condition: a value that equals a sentinel error, or
// for which errors.Is is true, is not nil; a Buffer that is zero or empty has nothing to free.
func (f *flow) implied(s *state, v ssa.Value, taken truth) {
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
					s.learn("nil("+f.canon(pair[0])+")", false)
				}
			}
		}
		if (v.Op == token.EQL) == taken && (v.Op == token.EQL || v.Op == token.NEQ) && isZero(v.Y) {
			f.gotNothing(s, v.X)
		}
		c := f.condition(v)
		x := lengthOf(v.X)
		if x == nil {
			x = lengthOf(v.Y)
		}
		switch empty := strings.HasPrefix(c.key, "empty("); {
		case empty && taken == c.positive:
			f.nothingIn(s, x, byLength)
		case x != nil && f.kinds.kindOf(x.Type()) == handle:
			f.found(s, f.refsOf(s, x))
		}
	case *ssa.Call:
		fn := v.Call.StaticCallee()
		if fn == nil || len(v.Call.Args) == 0 {
			return
		}
		switch arg := v.Call.Args[0]; {
		case taken && fn.Pkg != nil && fn.Pkg.Pkg.Path() == "errors" && (fn.Name() == "Is" || fn.Name() == "As"):
			s.learn("nil("+f.canon(arg)+")", false)
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
			s.learn("nil("+f.canon(a.X)+")", false)
		}
	}
}

// byLength marks a reference whose length was found to be 0. It is taken to have nothing to free, although an
// empty reference may hold memory.
const byLength = "\x00length"

// nothingIn records that a handle or container was found empty.
func (f *flow) nothingIn(s *state, v ssa.Value, by string) {
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
func (f *flow) gotNothing(s *state, n ssa.Value) {
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
