package report

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// A Site is a call in the source, or a receive operation.
type Site struct {
	Call *ast.CallExpr // nil for a receive operation
	From string        // the operand of a receive operation
	LHS  []ast.Expr    // what its results are assigned to
	Stmt ast.Stmt      // the statement that consists of the call, or of its assignment
}

// Index finds the calls of the files, by their position in package ssa.
func Index(files []*ast.File) map[token.Pos]Site {
	sites := map[token.Pos]Site{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if _, ok := sites[n.Lparen]; !ok {
					sites[n.Lparen] = Site{Call: n}
				}
			case *ast.AssignStmt:
				if len(n.Rhs) == 1 {
					if u, ok := ast.Unparen(n.Rhs[0]).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
						sites[u.OpPos] = Site{From: types.ExprString(u.X), LHS: n.Lhs, Stmt: n}
					}
					if c := callIn(n.Rhs[0]); c != nil {
						sites[c.Lparen] = Site{Call: c, LHS: n.Lhs, Stmt: n}
					}
				} else if len(n.Rhs) == len(n.Lhs) {
					for i, e := range n.Rhs {
						if c := callIn(e); c != nil {
							sites[c.Lparen] = Site{Call: c, LHS: n.Lhs[i : i+1], Stmt: n}
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
						sites[c.Lparen] = Site{Call: c, LHS: lhs}
					}
				}
			case *ast.RangeStmt:
				if n.Key != nil && n.Value == nil {
					sites[n.For] = Site{From: types.ExprString(n.X), LHS: []ast.Expr{n.Key}, Stmt: n}
				}
			case *ast.ExprStmt:
				if u, ok := ast.Unparen(n.X).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
					sites[u.OpPos] = Site{From: types.ExprString(u.X), Stmt: n}
				}
				if c, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
					sites[c.Lparen] = Site{Call: c, Stmt: n}
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

// Text is the source text of a reference's origin.
func (s Site) Text() string {
	if s.Call == nil {
		return "<-" + s.From
	}
	return FunText(s.Call)
}

// FunText is the source text of a call's function, such as p.Get.
func FunText(call *ast.CallExpr) string {
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
