package pools

import (
	"go/types"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A Step leads from memory to a part of it.
type Step struct {
	Kind StepKind
	N    int64 // the field, or the element
}

// StepKind is a kind of step.
type StepKind uint8

const (
	Field   StepKind = iota // a field of a struct
	Element                 // an element, with a constant index, of an array or slice
)

// A Path is a list of steps. The zero Path has none. Paths can be compared, and are keys of maps: each step is two
// bytes and the digits of its number.
type Path struct{ steps string }

// With is the path with another step at its end.
func (p Path) With(s Step) Path {
	return Path{p.steps + string(rune('a'+s.Kind)) + strconv.FormatInt(s.N, 10) + ";"}
}

// Join is the path followed by another one.
func (p Path) Join(q Path) Path { return Path{p.steps + q.steps} }

// Steps lists the steps.
func (p Path) Steps() []Step {
	var list []Step
	for text := range strings.SplitSeq(strings.TrimSuffix(p.steps, ";"), ";") {
		if text == "" {
			continue
		}
		n, _ := strconv.ParseInt(text[1:], 10, 64)
		list = append(list, Step{StepKind(text[0] - 'a'), n})
	}
	return list
}

// Within reports whether p is q, or continues it.
func (p Path) Within(q Path) bool { return strings.HasPrefix(p.steps, q.steps) }

// PathOf makes a path of steps.
func PathOf(steps []Step) (p Path) {
	for _, s := range steps {
		p = p.With(s)
	}
	return p
}

// A Place is memory: what a pointer points to, and a part of it.
type Place struct {
	Root ssa.Value
	Path Path
}

// Within reports whether p is q or a part of it.
func (p Place) Within(q Place) bool { return p.Root == q.Root && p.Path.Within(q.Path) }

// variable reports whether the place is in a variable of the function, or in what it made with new.
func (p Place) variable() bool {
	_, ok := p.Root.(*ssa.Alloc)
	return ok
}

// PlaceOf is the memory to which a pointer leads; ok is false if that has no name, as an element with a computed
// index. same gives the value that another one is known to repeat.
func PlaceOf(v ssa.Value, same func(ssa.Value) ssa.Value) (p Place, ok bool) {
	switch v := v.(type) {
	case *ssa.FieldAddr:
		if p, ok = PlaceOf(v.X, same); ok {
			p.Path = p.Path.With(Step{Field, int64(v.Field)})
		}
		return p, ok
	case *ssa.IndexAddr:
		c, isConst := v.Index.(*ssa.Const)
		if !isConst || c.Value == nil {
			return Place{}, false
		}
		if _, array := v.X.Type().Underlying().(*types.Pointer); array {
			p, ok = PlaceOf(v.X, same)
		} else {
			p, ok = Place{Root: same(v.X)}, true
		}
		p.Path = p.Path.With(Step{Element, c.Int64()})
		return p, ok
	case *ssa.ChangeType:
		return PlaceOf(v.X, same)
	case *ssa.Convert: // through unsafe.Pointer
		if pointerLike(v.Type()) && pointerLike(v.X.Type()) {
			return PlaceOf(v.X, same)
		}
	}
	if _, isPtr := v.Type().Underlying().(*types.Pointer); !isPtr {
		return Place{}, false
	}
	return Place{Root: same(v)}, true
}

// pointerLike reports whether the type is a pointer, unsafe.Pointer included.
func pointerLike(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return true
	case *types.Basic:
		return u.Kind() == types.UnsafePointer
	}
	return false
}
