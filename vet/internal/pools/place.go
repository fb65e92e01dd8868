package pools

import (
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/places"
)

// placeOf is the memory to which a pointer leads; ok is false if that has no name, as an element with a computed
// index.
func (s *state) placeOf(v ssa.Value) (p places.Place, ok bool) {
	switch v := v.(type) {
	case *ssa.FieldAddr:
		p, ok = s.placeOf(v.X)
		return p.With(places.Step{Kind: places.Field, N: int64(v.Field)}), ok
	case *ssa.IndexAddr:
		c, isConst := v.Index.(*ssa.Const)
		if !isConst || c.Value == nil {
			return places.Place{}, false
		}
		if _, array := v.X.Type().Underlying().(*types.Pointer); array {
			p, ok = s.placeOf(v.X)
		} else {
			p, ok = places.Of(s.original(v.X)), true
		}
		return p.With(places.Step{Kind: places.Element, N: c.Int64()}), ok
	case *ssa.ChangeType:
		return s.placeOf(v.X)
	case *ssa.Convert: // through unsafe.Pointer
		if pointerLike(v.Type()) && pointerLike(v.X.Type()) {
			return s.placeOf(v.X)
		}
	}
	if _, isPtr := v.Type().Underlying().(*types.Pointer); !isPtr {
		return places.Place{}, false
	}
	return places.Of(s.original(v)), true
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
