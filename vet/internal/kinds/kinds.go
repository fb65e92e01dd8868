// Package kinds says how types hold references to Tarn's memory.
package kinds

import (
	"go/types"
	"strings"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// Tarn is the package whose types are tracked.
const Tarn = "github.com/tarn-go/tarn"

// Kind says how a type holds references.
type Kind uint8

const (
	Untracked Kind = iota
	Handle         // tarn.Buffer: a value that is one reference
	Container      // tarn.Chain, Writer, Arena: used through a pointer, emptied by Free and then reusable
	Bag            // a slice of handles or containers that the function made
	Composite      // a struct or array that contains one of these by value
	Loan           // bytes of a value that is no reference, borrowed until its next method is called
)

// Types holds the types that hold references, as seen from one package.
type Types struct {
	tarn  *types.Package
	base  map[*types.TypeName]Kind
	kinds map[types.Type]Kind
}

// New returns nil if pkg is not package tarn and does not import it, directly or not.
func New(pkg *types.Package) *Types {
	tarn := findTarn(pkg)
	if tarn == nil {
		return nil
	}
	t := &Types{tarn: tarn, base: map[*types.TypeName]Kind{}, kinds: map[types.Type]Kind{}}
	for name, k := range map[string]Kind{"Buffer": Handle, "Chain": Container, "Writer": Container, "Arena": Container} {
		obj, ok := tarn.Scope().Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		// An alias leads to where the type is declared.
		if named, ok := types.Unalias(obj.Type()).(*types.Named); ok {
			t.base[named.Obj()] = k
		}
	}
	return t
}

// Implements reports whether a package implements references: its code handles parts of them.
func Implements(pkg *types.Package) bool {
	return strings.TrimSuffix(pkg.Path(), "_test") == Tarn || strings.HasPrefix(pkg.Path(), Tarn+"/internal/")
}

func findTarn(pkg *types.Package) *types.Package {
	if pkg.Path() == Tarn {
		return pkg
	}
	seen := map[*types.Package]bool{}
	var find func(p *types.Package) *types.Package
	find = func(p *types.Package) *types.Package {
		for _, imp := range p.Imports() {
			if imp.Path() == Tarn {
				return imp
			}
			if seen[imp] {
				continue
			}
			seen[imp] = true
			if found := find(imp); found != nil {
				return found
			}
		}
		return nil
	}
	return find(pkg)
}

// Of says how a value of type typ holds references.
func (t *Types) Of(typ types.Type) Kind {
	typ = types.Unalias(typ)
	if k, ok := t.kinds[typ]; ok {
		return k
	}
	t.kinds[typ] = Untracked // ends recursion through invalid types
	k := Untracked
	if named, ok := typ.(*types.Named); ok {
		k = t.base[named.Origin().Obj()]
	}
	if k == Untracked {
		switch u := typ.Underlying().(type) {
		case *types.Struct:
			for f := range u.Fields() {
				if t.Of(f.Type()) != Untracked {
					k = Composite
					break
				}
			}
		case *types.Array:
			if u.Len() > 0 && t.Of(u.Elem()) != Untracked {
				k = Composite
			}
		}
	}
	t.kinds[typ] = k
	return k
}

// Elements reports whether typ is a slice whose elements hold references by value.
func (t *Types) Elements(typ types.Type) bool {
	s, ok := typ.Underlying().(*types.Slice)
	return ok && t.Of(s.Elem()) != Untracked
}

// Pointee is the kind of the type that typ points to.
func (t *Types) Pointee(typ types.Type) Kind {
	if p, ok := types.Unalias(typ).Underlying().(*types.Pointer); ok {
		return t.Of(p.Elem())
	}
	return Untracked
}

// Holds reports whether a parameter or result of type typ can carry a reference.
func (t *Types) Holds(typ types.Type) bool {
	return t.Of(typ) != Untracked || t.Pointee(typ) != Untracked
}

// Unit reports whether a type is a struct with a method Free of its own: what is in it is freed together.
func (t *Types) Unit(typ types.Type) bool {
	named, ok := types.Unalias(typ).(*types.Named)
	if !ok || t.Of(typ) != Composite {
		return false
	}
	for m := range named.Origin().Methods() {
		if sig := m.Signature(); (m.Name() == "Free" || m.Name() == "free") && sig.Params().Len() == 0 && sig.Results().Len() == 0 {
			return true
		}
	}
	return false
}

// Leaves are the paths of the Buffers and containers in a struct. Those in its arrays and slices, and what its pointers lead to, are left
// out.
func (t *Types) Leaves(typ types.Type) (list []places.Path) {
	var walk func(typ types.Type, at places.Path)
	walk = func(typ types.Type, at places.Path) {
		switch t.Of(typ) {
		case Handle, Container:
			list = append(list, at)
		case Composite:
			if u, ok := typ.Underlying().(*types.Struct); ok {
				for i := range u.NumFields() {
					walk(u.Field(i).Type(), at.With(places.Step{Kind: places.Field, N: int64(i)}))
				}
			}
		}
	}
	walk(typ, places.Path{})
	return list
}

// Pointers are the paths of the pointers to containers in a struct.
func (t *Types) Pointers(typ types.Type) (list []places.Path) {
	var walk func(typ types.Type, at places.Path)
	walk = func(typ types.Type, at places.Path) {
		if t.Pointee(typ) == Container {
			list = append(list, at)
		}
		if u, ok := typ.Underlying().(*types.Struct); ok && t.Of(typ) == Composite {
			for i := range u.NumFields() {
				walk(u.Field(i).Type(), at.With(places.Step{Kind: places.Field, N: int64(i)}))
			}
		}
	}
	walk(typ, places.Path{})
	return list
}

// OnlyLeaf returns the path of the only reference in a composite, or of the only struct in it that has references and a method Free; ok is
// false when there are several. Pointers to containers count, since they are owned together with the composite.
func (t *Types) OnlyLeaf(typ types.Type) (path places.Path, ok bool) {
	n := 0
	var walk func(typ types.Type, at places.Path)
	walk = func(typ types.Type, at places.Path) {
		switch t.Of(typ) {
		case Handle, Container:
			path = at
			n++
			return
		}
		if at != (places.Path{}) && t.Unit(typ) {
			path = at
			n++
			return
		}
		if t.Pointee(typ) == Container {
			n++
			return
		}
		switch u := typ.Underlying().(type) {
		case *types.Struct:
			for i := range u.NumFields() {
				walk(u.Field(i).Type(), at.With(places.Step{Kind: places.Field, N: int64(i)}))
			}
		case *types.Array:
			if t.Of(u.Elem()) != Untracked {
				n += int(u.Len())
			}
		case *types.Slice:
			if t.Of(u.Elem()) != Untracked {
				n += 2
			}
		}
	}
	if t.Of(typ) != Composite {
		return places.Path{}, false
	}
	walk(typ, places.Path{})
	return path, n == 1
}

// ErrorField is the one field of a struct that is an error.
func ErrorField(typ types.Type) (at int8, ok bool) {
	st, isStruct := typ.Underlying().(*types.Struct)
	if !isStruct {
		return 0, false
	}
	for i := range min(st.NumFields(), 100) {
		if code.IsError(st.Field(i).Type()) {
			if ok {
				return 0, false // there are several
			}
			at, ok = int8(i), true
		}
	}
	return at, ok
}

// Tells reports whether a struct or array has something by which its receiver can tell its sender to free the references in it: a
// channel, a function, a pointer, an interface other than error, a map.
func (t *Types) Tells(typ types.Type) bool {
	if t.Of(typ) != Composite {
		switch typ.Underlying().(type) {
		case *types.Chan, *types.Signature, *types.Pointer, *types.Map:
			return true
		case *types.Interface:
			return !code.IsError(typ)
		}
		return false
	}
	switch u := typ.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if t.Tells(f.Type()) {
				return true
			}
		}
	case *types.Array:
		return t.Tells(u.Elem())
	}
	return false
}

// IsBytes reports whether typ is a slice of bytes.
func IsBytes(typ types.Type) bool {
	s, ok := typ.Underlying().(*types.Slice)
	if !ok {
		return false
	}
	b, ok := s.Elem().Underlying().(*types.Basic)
	return ok && b.Kind() == types.Byte
}

// IsBase reports whether typ is a handle or container, or points to one.
func (t *Types) IsBase(typ types.Type) bool {
	named := NamedOf(typ)
	return named != nil && t.base[named.Origin().Obj()] != Untracked
}

// Moves reports whether a method's parameters or results can carry references.
func (t *Types) Moves(sig *types.Signature) bool {
	for v := range sig.Params().Variables() {
		if t.Holds(v.Type()) {
			return true
		}
	}
	for v := range sig.Results().Variables() {
		if t.Holds(v.Type()) {
			return true
		}
	}
	return false
}

// NamedOf is the named type that a type is, or points to; nil if there is none.
func NamedOf(typ types.Type) *types.Named {
	typ = types.Unalias(typ)
	if p, ok := typ.(*types.Pointer); ok {
		typ = types.Unalias(p.Elem())
	}
	n, _ := typ.(*types.Named)
	return n
}

// Declares reports whether package tarn declares fn, or a type of which fn is a method is one of those that hold references: an alias
// leads to where that is declared.
func (t *Types) Declares(fn *types.Func) bool {
	if r := fn.Signature().Recv(); r != nil {
		named := NamedOf(r.Type())
		return named != nil && (t.base[named.Origin().Obj()] != Untracked || named.Origin().Obj().Pkg() == t.tarn)
	}
	return fn.Pkg() == t.tarn
}

// Has reports whether a package is package tarn.
func (t *Types) Has(pkg *types.Package) bool { return pkg == t.tarn }

// ContainerIn is the name of the first container in a value of type typ; "" if there is none.
func (t *Types) ContainerIn(typ types.Type) string {
	switch t.Of(typ) {
	case Container:
		return NamedOf(typ).Obj().Name()
	case Composite:
		switch u := typ.Underlying().(type) {
		case *types.Struct:
			for v := range u.Fields() {
				if name := t.ContainerIn(v.Type()); name != "" {
					return name
				}
			}
		case *types.Array:
			return t.ContainerIn(u.Elem())
		}
	}
	return ""
}
