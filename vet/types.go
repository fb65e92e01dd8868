package vet

import (
	"go/types"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// tarnPath is the package whose types are tracked.
const tarnPath = "github.com/tarn-go/tarn"

// kind says how a type holds references.
type kind uint8

const (
	untracked kind = iota
	handle         // tarn.Buffer: a value that is one reference
	container      // tarn.Chain, Writer, Arena: used through a pointer, emptied by Free and then reusable
	bag            // a slice of handles or containers that the function made
	composite      // a struct or array that contains one of these by value
	loan           // bytes of a value that is no reference, borrowed until its next method is called
)

// tracked holds the types that hold references, as seen from one package.
type tracked struct {
	tarn  *types.Package
	base  map[*types.TypeName]kind
	kinds map[types.Type]kind
}

// newTracked returns nil if pkg is not package tarn and does not import it, directly or not.
func newTracked(pkg *types.Package) *tracked {
	tarn := findTarn(pkg)
	if tarn == nil {
		return nil
	}
	t := &tracked{tarn: tarn, base: map[*types.TypeName]kind{}, kinds: map[types.Type]kind{}}
	for name, k := range map[string]kind{"Buffer": handle, "Chain": container, "Writer": container, "Arena": container} {
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

func findTarn(pkg *types.Package) *types.Package {
	if pkg.Path() == tarnPath {
		return pkg
	}
	seen := map[*types.Package]bool{}
	var find func(p *types.Package) *types.Package
	find = func(p *types.Package) *types.Package {
		for _, imp := range p.Imports() {
			if imp.Path() == tarnPath {
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

// kindOf says how a value of type typ holds references.
func (t *tracked) kindOf(typ types.Type) kind {
	typ = types.Unalias(typ)
	if k, ok := t.kinds[typ]; ok {
		return k
	}
	t.kinds[typ] = untracked // ends recursion through invalid types
	k := untracked
	if named, ok := typ.(*types.Named); ok {
		k = t.base[named.Origin().Obj()]
	}
	if k == untracked {
		switch u := typ.Underlying().(type) {
		case *types.Struct:
			for f := range u.Fields() {
				if t.kindOf(f.Type()) != untracked {
					k = composite
					break
				}
			}
		case *types.Array:
			if u.Len() > 0 && t.kindOf(u.Elem()) != untracked {
				k = composite
			}
		}
	}
	t.kinds[typ] = k
	return k
}

// elements reports whether typ is a slice whose elements hold references by value.
func (t *tracked) elements(typ types.Type) bool {
	s, ok := typ.Underlying().(*types.Slice)
	return ok && t.kindOf(s.Elem()) != untracked
}

// pointee is the kind of the type that typ points to.
func (t *tracked) pointee(typ types.Type) kind {
	if p, ok := types.Unalias(typ).Underlying().(*types.Pointer); ok {
		return t.kindOf(p.Elem())
	}
	return untracked
}

// holds reports whether a parameter or result of type typ can carry a reference.
func (t *tracked) holds(typ types.Type) bool {
	return t.kindOf(typ) != untracked || t.pointee(typ) != untracked
}

// onlyLeaf returns the path of the only reference in a composite; ok is false when there are several.
// Pointers to containers count, since they are owned together with the composite.
func (t *tracked) onlyLeaf(typ types.Type) (path places.Path, ok bool) {
	n := 0
	var walk func(typ types.Type, at places.Path)
	walk = func(typ types.Type, at places.Path) {
		switch t.kindOf(typ) {
		case handle, container:
			path = at
			n++
			return
		}
		if t.pointee(typ) == container {
			n++
			return
		}
		switch u := typ.Underlying().(type) {
		case *types.Struct:
			for i := range u.NumFields() {
				walk(u.Field(i).Type(), at.With(places.Step{Kind: places.Field, N: int64(i)}))
			}
		case *types.Array:
			if t.kindOf(u.Elem()) != untracked {
				n += int(u.Len())
			}
		case *types.Slice:
			if t.kindOf(u.Elem()) != untracked {
				n += 2
			}
		}
	}
	if t.kindOf(typ) != composite {
		return places.Path{}, false
	}
	walk(typ, places.Path{})
	return path, n == 1
}

// errorField is the one field of a struct that is an error.
func errorField(typ types.Type) (at int8, ok bool) {
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

// tells reports whether a struct or array has something by which its receiver can tell its sender to free the references in it: a
// channel, a function, a pointer, an interface other than error, a map.
func (t *tracked) tells(typ types.Type) bool {
	if t.kindOf(typ) != composite {
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
			if t.tells(f.Type()) {
				return true
			}
		}
	case *types.Array:
		return t.tells(u.Elem())
	}
	return false
}

// isBytes reports whether typ is a slice of bytes.
func isBytes(typ types.Type) bool {
	s, ok := typ.Underlying().(*types.Slice)
	if !ok {
		return false
	}
	b, ok := s.Elem().Underlying().(*types.Basic)
	return ok && b.Kind() == types.Byte
}
