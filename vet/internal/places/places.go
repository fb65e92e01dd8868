// Package places names memory in a function: a value that leads to it, and the steps from there to a part. Two places of one
// name are the same memory. Places can be compared, and are keys of maps.
package places

import (
	"encoding/binary"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A Step leads from memory to a part of it, or to other memory.
type Step struct {
	Kind Kind
	N    int64  // the field, the element, or the number of the value that is the index
	Key  string // the constant key of a map's element, in Go's notation, if it is no integer
}

// Kind is a kind of step.
type Kind uint8

const (
	Field   Kind = iota // a field of a struct
	Element             // an element with a constant index, of an array, a slice or a map
	Indexed             // an element whose index is a value
	Pointer             // what a pointer, a slice or a map leads to
)

// A Path is a list of steps. The zero Path has none.
type Path struct {
	// steps holds each step as its kind, its number and its key. No step is the beginning of another one, so that a path
	// begins with another one if the texts do.
	steps string
}

// PathOf is the path of some steps.
func PathOf(steps ...Step) (p Path) {
	for _, s := range steps {
		p = p.With(s)
	}
	return p
}

// With is the path with another step at its end.
func (p Path) With(s Step) Path {
	var buf [2*binary.MaxVarintLen64 + 1]byte
	text := append(buf[:0], byte(s.Kind))
	text = binary.AppendVarint(text, s.N)
	text = binary.AppendUvarint(text, uint64(len(s.Key)))
	return Path{p.steps + string(text) + s.Key}
}

// Join is the path followed by another one.
func (p Path) Join(q Path) Path { return Path{p.steps + q.steps} }

// next is the first step, and the path after it.
func (p Path) next() (Step, Path) {
	s := Step{Kind: Kind(p.steps[0])}
	rest := p.steps[1:]
	n, size := varint(rest)
	s.N, rest = n, rest[size:]
	length, size := uvarint(rest)
	s.Key, rest = rest[size:size+int(length)], rest[size+int(length):]
	return s, Path{rest}
}

// varint and uvarint read what package binary's functions of these names have appended.
func varint(s string) (int64, int) {
	u, n := uvarint(s)
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v, n
}

func uvarint(s string) (v uint64, n int) {
	for n < len(s) {
		b := s[n]
		v |= uint64(b&0x7f) << (7 * n)
		n++
		if b < 0x80 {
			break
		}
	}
	return v, n
}

// All yields the steps.
func (p Path) All() func(yield func(Step) bool) {
	return func(yield func(Step) bool) {
		for p.steps != "" {
			var s Step
			if s, p = p.next(); !yield(s) {
				return
			}
		}
	}
}

// Steps lists the steps.
func (p Path) Steps() []Step { return slices.Collect(p.All()) }

// Within reports whether p is q, or continues it.
func (p Path) Within(q Path) bool { return strings.HasPrefix(p.steps, q.steps) }

// After is what p has after q, which it continues.
func (p Path) After(q Path) Path { return Path{p.steps[len(q.steps):]} }

// Up is the path without its last step, and that step; ok is false if there is none.
func (p Path) Up() (up Path, last Step, ok bool) {
	for rest := p; rest.steps != ""; ok = true {
		up.steps = p.steps[:len(p.steps)-len(rest.steps)]
		last, rest = rest.next()
	}
	return up, last, ok
}

// Last is the last step; ok is false if there is none.
func (p Path) Last() (last Step, ok bool) {
	_, last, ok = p.Up()
	return last, ok
}

// Any reports whether one of the steps matches.
func (p Path) Any(match func(Step) bool) bool {
	for s := range p.All() {
		if match(s) {
			return true
		}
	}
	return false
}

// Key identifies the path, and is short.
func (p Path) Key() string { return p.steps }

// String is the path as a reader of tests understands it: ".1" is a field, "[2]" an element, "[v3]" one whose index is value
// number 3, and "*" what a pointer leads to.
func (p Path) String() string {
	var b strings.Builder
	for s := range p.All() {
		switch n := strconv.FormatInt(s.N, 10); s.Kind {
		case Field:
			b.WriteString("." + n)
		case Element:
			b.WriteString("[" + s.index() + "]")
		case Indexed:
			b.WriteString("[v" + n + "]")
		case Pointer:
			b.WriteString("*")
		}
	}
	return b.String()
}

// index is the text of a constant index.
func (s Step) index() string {
	if s.Key != "" {
		return s.Key
	}
	return strconv.FormatInt(s.N, 10)
}

// IsElement reports whether the step leads to an element.
func (s Step) IsElement() bool { return s.Kind == Element || s.Kind == Indexed }

// A Place is memory: what Root points to, and the path from there.
type Place struct {
	Root ssa.Value
	Path Path
}

// Of is what a pointer leads to.
func Of(root ssa.Value) Place { return Place{Root: root} }

// With is the place to which a step leads.
func (p Place) With(s Step) Place { return Place{p.Root, p.Path.With(s)} }

// Join is the place to which a path leads.
func (p Place) Join(q Path) Place { return Place{p.Root, p.Path.Join(q)} }

// Within reports whether p is q or a part of it, or memory to which one leads.
func (p Place) Within(q Place) bool { return p.Root == q.Root && p.Path.Within(q.Path) }

// Whole reports whether the place is all of what its root points to.
func (p Place) Whole() bool { return p.Path == Path{} }

// Variable reports whether the place is in a variable of the function, in what it made with new, or in memory to which
// one of these leads.
func (p Place) Variable() bool {
	_, ok := p.Root.(*ssa.Alloc)
	return ok
}

// Local reports whether the place is in a variable of the function, or in what it made with new, and has a fixed position
// there: only the function can reach it, unless the variable's address escapes.
func (p Place) Local() bool {
	return p.Variable() && !p.Path.Any(func(s Step) bool { return s.Kind == Pointer || s.Kind == Indexed })
}

// IsElement reports whether the place is an element of an array, a slice or a map.
func (p Place) IsElement() bool {
	s, ok := p.Path.Last()
	return ok && s.IsElement()
}

// InElement reports whether the place is an element, or a part of one.
func (p Place) InElement() bool { return p.Path.Any(Step.IsElement) }

// IsConstantElement reports whether the place is an element, and all indexes on the path are constants.
func (p Place) IsConstantElement() bool {
	return p.IsElement() && !p.Path.Any(func(s Step) bool { return s.Kind == Indexed })
}

// Around yields the places of which p is a part, the smallest first.
func (p Place) Around() func(yield func(Place) bool) {
	return func(yield func(Place) bool) {
		for {
			up, last, ok := p.Path.Up()
			if p.Path = up; !ok || last.Kind == Pointer || !yield(p) {
				return
			}
		}
	}
}

// part is the type to which a step leads, or nil if there is none.
func part(typ types.Type, s Step) types.Type {
	switch u := typ.Underlying().(type) {
	case *types.Struct:
		if s.Kind == Field && s.N >= 0 && s.N < int64(u.NumFields()) {
			return u.Field(int(s.N)).Type()
		}
	case *types.Array:
		if s.IsElement() {
			return u.Elem()
		}
	case *types.Slice:
		switch {
		case s.IsElement():
			return u.Elem()
		case s.Kind == Pointer:
			return typ // its elements
		}
	case *types.Map:
		switch {
		case s.IsElement():
			return u.Elem()
		case s.Kind == Pointer:
			return typ
		}
	case *types.Pointer:
		if s.Kind == Pointer {
			return u.Elem()
		}
	}
	return nil
}

// target is the type of what a value leads to: a pointer's target, or the value's own type.
func target(v ssa.Value) types.Type {
	if ptr, ok := v.Type().Underlying().(*types.Pointer); ok {
		return ptr.Elem()
	}
	return v.Type()
}

// Type is the type of what is in a place; it is invalid if the path has a step that the type does not have.
func (p Place) Type() types.Type {
	typ := target(p.Root)
	for s := range p.Path.All() {
		if typ = part(typ, s); typ == nil {
			return types.Typ[types.Invalid]
		}
	}
	return typ
}

// Text is the place as the source names it, after the name of its root: fields by their names, elements by their index.
// index is the text of an index that is a value.
func (p Place) Text(root string, index func(number int64) string) string {
	text := root
	typ := target(p.Root)
	for s := range p.Path.All() {
		to := part(typ, s)
		if to == nil {
			break
		}
		switch s.Kind {
		case Field:
			if text != "" {
				text += "."
			}
			text += typ.Underlying().(*types.Struct).Field(int(s.N)).Name()
		case Element:
			text += "[" + s.index() + "]"
		case Indexed:
			text += "[" + index(s.N) + "]"
		}
		typ = to
	}
	return text
}

// RootText is the source's name of a parameter, a captured or global variable, or a variable of the function; "" for another value.
func RootText(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.Parameter, *ssa.FreeVar, *ssa.Global:
		return v.Name()
	case *ssa.Alloc:
		switch v.Comment {
		case "complit", "new", "varargs", "makeslice", "slicelit":
			return "" // no variable
		}
		if token.IsIdentifier(v.Comment) {
			return v.Comment
		}
	}
	return ""
}

// Index is the step to the element with an index or key. number is the number of a value.
func Index(v ssa.Value, number func(ssa.Value) int) Step {
	c, ok := v.(*ssa.Const)
	if !ok || c.Value == nil {
		return Step{Kind: Indexed, N: int64(number(v))}
	}
	if n, err := strconv.ParseInt(c.Value.ExactString(), 10, 64); err == nil {
		return Step{Kind: Element, N: n}
	}
	return Step{Kind: Element, Key: c.Value.ExactString()}
}
