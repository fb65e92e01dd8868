package refs

import (
	"fmt"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/kinds"
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
