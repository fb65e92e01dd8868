package refs

import (
	"fmt"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// endings are names of methods after which a value is not used any more. One that is named Free must end all references that the value
// owns, one of another name those which other functions of the package free.
var endings = map[string]bool{"Free": true, "free": true, "Close": true, "close": true}

// checkFree reports the fields that a type's Free, or another method that ends it, does not free.
func (c *Checker) checkFree(f *function) {
	fn := f.fn
	if !endings[fn.Name()] || fn.Signature.Recv() == nil || len(fn.Params) != 1 || len(fn.Blocks) == 0 {
		return // no method that ends a value, or one whose body is not Go
	}
	recv := fn.Params[0]
	owner := recv.Type()
	if ptr, ok := owner.Underlying().(*types.Pointer); ok {
		owner = ptr.Elem()
	}
	st, ok := owner.Underlying().(*types.Struct)
	if !ok || c.kinds.Of(owner) == kinds.Handle {
		return
	}
	freed := map[int]bool{}
	if !c.released(f, fn, recv, freed, map[*ssa.Function]bool{}) {
		return // all of the value is given to another owner
	}
	for i := range st.NumFields() {
		v := st.Field(i)
		if freed[i] || c.kinds.Of(v.Type()) == kinds.Untracked && !c.kinds.Elements(v.Type()) {
			continue
		}
		c.reports.Emit(analysis.Diagnostic{
			Pos: fn.Pos(), Category: string(report.Leak),
			Message: fmt.Sprintf("leak: %s does not free the field %s, which holds references", fn.Name(), v.Name()),
		}, v.Pos())
	}
}

// released records the fields of recv's struct that are freed or moved in fn or in the methods that it calls. recv is a
// pointer to the struct, or the struct. It returns false when all of recv is passed or stored elsewhere.
func (c *Checker) released(f *function, fn *ssa.Function, recv ssa.Value, freed map[int]bool, seen map[*ssa.Function]bool) bool {
	if seen[fn] {
		return true
	}
	seen[fn] = true
	if v := variableOf(recv); v != nil {
		recv = v
	}
	for _, u := range *recv.Referrers() {
		switch u := u.(type) {
		case *ssa.FieldAddr:
			if f.released(u) {
				freed[u.Field] = true
			}
		case *ssa.Field:
			if f.released(u) {
				freed[u.Field] = true
			}
		case ssa.CallInstruction:
			to := u.Common().StaticCallee()
			if to == nil || len(to.Params) == 0 || u.Common().Args[0] != recv || len(to.Blocks) == 0 {
				return false
			}
			if !c.released(f, to, to.Params[0], freed, seen) {
				return false
			}
		case *ssa.UnOp, *ssa.Store, *ssa.DebugRef:
			if st, ok := u.(*ssa.Store); ok && st.Val == recv {
				return false
			}
			if _, ok := u.(*ssa.UnOp); ok {
				return false // copied
			}
		default:
			return false
		}
	}
	return true
}

// variableOf is the variable in which a function keeps a parameter that is a struct; nil for a pointer, and where
// fields are taken from the parameter itself.
func variableOf(param ssa.Value) *ssa.Alloc {
	if len(*param.Referrers()) != 1 {
		return nil
	}
	st, ok := (*param.Referrers())[0].(*ssa.Store)
	if !ok || st.Val != param {
		return nil
	}
	v, _ := st.Addr.(*ssa.Alloc)
	return v
}
