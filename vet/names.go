package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// site is a call in the source, or a receive operation.
type site struct {
	call *ast.CallExpr // nil for a receive operation
	from string        // the operand of a receive operation
	lhs  []ast.Expr    // what its results are assigned to
	stmt ast.Stmt      // the statement that consists of the call, or of its assignment
}

// index finds the calls of the files, by their position in package ssa.
func index(files []*ast.File) map[token.Pos]site {
	sites := map[token.Pos]site{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if _, ok := sites[n.Lparen]; !ok {
					sites[n.Lparen] = site{call: n}
				}
			case *ast.AssignStmt:
				if len(n.Rhs) == 1 {
					if u, ok := ast.Unparen(n.Rhs[0]).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
						sites[u.OpPos] = site{from: types.ExprString(u.X), lhs: n.Lhs, stmt: n}
					}
					if c := callIn(n.Rhs[0]); c != nil {
						sites[c.Lparen] = site{call: c, lhs: n.Lhs, stmt: n}
					}
				} else if len(n.Rhs) == len(n.Lhs) {
					for i, e := range n.Rhs {
						if c := callIn(e); c != nil {
							sites[c.Lparen] = site{call: c, lhs: n.Lhs[i : i+1], stmt: n}
						}
					}
				}
			case *ast.ValueSpec:
				for i, e := range n.Values {
					if c := callIn(e); c != nil {
						var lhs []ast.Expr
						for _, name := range n.Names {
							lhs = append(lhs, name)
						}
						if len(n.Values) > 1 {
							lhs = lhs[i : i+1]
						}
						sites[c.Lparen] = site{call: c, lhs: lhs}
					}
				}
			case *ast.RangeStmt:
				if n.Key != nil && n.Value == nil {
					sites[n.For] = site{from: types.ExprString(n.X), lhs: []ast.Expr{n.Key}, stmt: n}
				}
			case *ast.ExprStmt:
				if u, ok := ast.Unparen(n.X).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
					sites[u.OpPos] = site{from: types.ExprString(u.X), stmt: n}
				}
				if c, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
					sites[c.Lparen] = site{call: c, stmt: n}
				}
			}
			return true
		})
	}
	return sites
}

// callIn is the call of which x is the result, or a type assertion on the result; nil for another expression.
func callIn(x ast.Expr) *ast.CallExpr {
	switch x := ast.Unparen(x).(type) {
	case *ast.CallExpr:
		return x
	case *ast.TypeAssertExpr:
		return callIn(x.X)
	}
	return nil
}

// callText is the source text of a call's function, such as p.Get.
func (f *function) callText(c *ssa.CallCommon) string {
	if s, ok := f.sites[c.Pos()]; ok && s.call != nil {
		return funText(s.call)
	}
	return calleeName(c)
}

// text is the source text of a reference's origin.
func (s site) text() string {
	if s.call == nil {
		return "<-" + s.from
	}
	return funText(s.call)
}

func funText(call *ast.CallExpr) string {
	if _, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
		return "the function literal"
	}
	text := types.ExprString(call.Fun)
	if len(text) > 40 {
		if i := strings.LastIndexByte(text, '.'); i >= 0 {
			text = "…" + text[i:]
		}
	}
	return text
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
	if i < len(s.lhs) {
		if text := types.ExprString(s.lhs[i]); text != "_" {
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
	if !ok || at.call == nil {
		return ""
	}
	var e ast.Expr
	if fn := code.Callee(c); fn != nil && fn.Signature().Recv() != nil {
		if i--; i < 0 {
			if sel, ok := ast.Unparen(at.call.Fun).(*ast.SelectorExpr); ok {
				e = sel.X
			}
		}
	}
	if i >= 0 && i < len(at.call.Args) {
		e = at.call.Args[i]
	}
	if e == nil {
		return ""
	}
	if text := types.ExprString(e); len(text) <= 40 {
		return text
	}
	return ""
}
