package refs

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// callText is the source text of a call's function, such as p.Get.
func (f *function) callText(c *ssa.CallCommon) string {
	if s, ok := f.sites[c.Pos()]; ok && s.Call != nil {
		return report.FunText(s.Call)
	}
	return calleeName(c)
}

// variable is the name of the variable that a ref was first assigned to; "" when there is none.
func (f *function) variable(r *ref) string {
	if r.field != "" {
		return r.field
	}
	s, ok := f.sites[r.pos]
	if !ok {
		return ""
	}
	i := max(r.index, 0)
	if i < len(s.LHS) {
		if text := types.ExprString(s.LHS[i]); text != "_" {
			return text
		}
	}
	return ""
}

// nameOf is the source's name of a place, if it has one.
func (f *function) nameOf(p places.Place) string { return p.Text(places.RootText(p.Root), f.indexText) }

// indexText is the possible source text of the index with a number: a variable's name, or "…".
func (f *function) indexText(number int64) string {
	switch v := f.numbers.Value(int(number)).(type) {
	case *ssa.Parameter, *ssa.FreeVar:
		return v.Name()
	case *ssa.Phi:
		if token.IsIdentifier(v.Comment) && v.Comment != "rangeindex" {
			return v.Comment
		}
	}
	return "…"
}

// argumentText is the source text of an argument of a call, numbered as in package ssa; "" if it is long.
func (f *function) argumentText(c *ssa.CallCommon, i int) string {
	at, ok := f.sites[c.Pos()]
	if !ok || at.Call == nil {
		return ""
	}
	var e ast.Expr
	if fn := code.Callee(c); fn != nil && fn.Signature().Recv() != nil {
		if i--; i < 0 {
			if sel, ok := ast.Unparen(at.Call.Fun).(*ast.SelectorExpr); ok {
				e = sel.X
			}
		}
	}
	if i >= 0 && i < len(at.Call.Args) {
		e = at.Call.Args[i]
	}
	if e == nil {
		return ""
	}
	if text := types.ExprString(e); len(text) <= 40 {
		return text
	}
	return ""
}
