package refs

import (
	"fmt"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// field is a field of a struct type that this package declares.
type field struct {
	owner *types.TypeName
	index int
}

// fieldOf is the field that an instruction addresses, if only this package can address it: the type or the
// field is not exported.
func (c *Checker) fieldOf(x types.Type, index int) (field, bool) {
	named := kinds.NamedOf(x)
	if named == nil {
		return field{}, false
	}
	owner := named.Origin().Obj()
	st, ok := named.Origin().Underlying().(*types.Struct)
	if !ok || owner.Pkg() != c.pass.Pkg {
		return field{}, false
	}
	v := st.Field(index)
	if v.Embedded() || v.Exported() && owner.Exported() && c.pass.Pkg.Name() != "main" {
		return field{}, false
	}
	return field{owner, index}, true
}

// findBytes finds the fields in which functions store the bytes of a Buffer that is in another field of the same struct.
func (c *Checker) findBytes(fns []*ssa.Function) {
	c.bytesOf = map[field]int{}
	for _, fn := range fns {
		for _, b := range fn.Blocks {
			for _, instr := range b.Instrs {
				st, ok := instr.(*ssa.Store)
				if !ok || !kinds.IsBytes(st.Val.Type()) {
					continue
				}
				at, ok := st.Addr.(*ssa.FieldAddr)
				if !ok || kinds.NamedOf(at.X.Type()) == nil {
					continue
				}
				if of, ok := c.besides(at, bytesCall(st.Val)); ok {
					c.bytesOf[field{kinds.NamedOf(at.X.Type()).Origin().Obj(), at.Field}] = of
				}
			}
		}
	}
}

// bytesCall is the Buffer of which a value is the bytes, or a part of them; nil if it is not known to be any's.
func bytesCall(v ssa.Value) ssa.Value {
	for {
		part, ok := v.(*ssa.Slice)
		if !ok {
			break
		}
		v = part.X
	}
	if !isBytesCall(v) {
		return nil
	}
	return v.(*ssa.Call).Call.Args[0]
}

// besides is the field of the struct of which at is a field, too, in which a Buffer is, or from which it was loaded.
func (c *Checker) besides(at *ssa.FieldAddr, buffer ssa.Value) (of int, ok bool) {
	if buffer == nil || c.kinds.Of(buffer.Type()) != kinds.Handle {
		return 0, false
	}
	if load, ok := buffer.(*ssa.UnOp); ok && load.Op == token.MUL {
		from, ok := load.X.(*ssa.FieldAddr)
		if !ok || from.X != at.X {
			return 0, false
		}
		return from.Field, true
	}
	for _, u := range *buffer.Referrers() {
		st, ok := u.(*ssa.Store)
		if !ok || st.Val != buffer {
			continue
		}
		if to, ok := st.Addr.(*ssa.FieldAddr); ok && to.X == at.X {
			return to.Field, true
		}
	}
	return 0, false
}

// reads records that the function reads bytes in a field: the Buffer of which they are is in another one.
func (f *function) reads(s *state, v ssa.Value) {
	for {
		part, ok := v.(*ssa.Slice)
		if !ok {
			break
		}
		v = part.X
	}
	load, ok := v.(*ssa.UnOp)
	if !ok || load.Op != token.MUL {
		return
	}
	at, ok := load.X.(*ssa.FieldAddr)
	if !ok || kinds.NamedOf(at.X.Type()) == nil {
		return
	}
	of, ok := f.bytesOf[field{kinds.NamedOf(at.X.Type()).Origin().Obj(), at.Field}]
	if !ok {
		return
	}
	if p, ok := f.placeOf(at.X); ok {
		p = p.With(places.Step{Kind: places.Field, N: int64(of)})
		now := f.now
		f.now = token.NoPos // it does not come from the call that reads
		f.found(s, f.content(s, p, p.Type()))
		f.now = now
	}
}

// put records that the function stores its own reference in a field.
func (f *function) put(addr ssa.Value, pos token.Pos) {
	at, ok := addr.(*ssa.FieldAddr)
	if !ok || f.quiet {
		return
	}
	key, ok := f.fieldOf(at.X.Type(), at.Field)
	if !ok {
		return
	}
	if before, ok := f.filled[key]; !ok || pos < before {
		f.filled[key] = pos
	}
}

// unfreed reports the fields in which references are stored and from which no function of the package frees
// or gives one away.
func (c *Checker) unfreed(fns []*ssa.Function) {
	if len(c.filled) == 0 {
		return
	}
	released := map[field]bool{}
	f := &function{Checker: c}
	for _, fn := range fns {
		if len(fn.Blocks) == 0 {
			return // not Go, or not analysed: it may do so
		}
		for _, b := range fn.Blocks {
			for _, instr := range b.Instrs {
				var key field
				var ok bool
				switch instr := instr.(type) {
				case *ssa.FieldAddr:
					key, ok = c.fieldOf(instr.X.Type(), instr.Field)
				case *ssa.Field:
					key, ok = c.fieldOf(instr.X.Type(), instr.Field)
				}
				if ok && !released[key] && f.released(instr.(ssa.Value)) {
					released[key] = true
				}
			}
		}
	}
	for key, pos := range c.filled {
		if released[key] {
			continue
		}
		v := key.owner.Type().Underlying().(*types.Struct).Field(key.index)
		c.reports.Emit(analysis.Diagnostic{
			Pos: pos, Category: string(report.Leak),
			Message: fmt.Sprintf("leak: the field %s of %s takes a reference here, and no function of this package frees what it holds or gives it away; free it where the %s ends",
				v.Name(), key.owner.Name(), key.owner.Name()),
		}, v.Pos())
	}
}
