// Package copies finds copies of Chains, Writers and Arenas that the analysis of paths does not follow: out of fields, elements and pointers,
// in the variables of range statements, and as receivers. As go vet's copylocks it looks at the syntax alone; a function that assigns to what
// it copied from, or clears it, moves the content and is not reported.
package copies

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"

	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// A checker checks one package.
type checker struct {
	pass    *analysis.Pass
	kinds   *kinds.Types
	reports *report.Reporter
}

// Check reports the copies in a package's functions.
func Check(pass *analysis.Pass, holds *kinds.Types, reports *report.Reporter) {
	if kinds.Implements(pass.Pkg) {
		return
	}
	c := &checker{pass, holds, reports}
	for _, file := range c.pass.Files {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if fn.Recv != nil && len(fn.Recv.List) == 1 && len(fn.Recv.List[0].Names) == 1 {
				name := fn.Recv.List[0].Names[0]
				if in := c.containerOf(name); in != "" {
					c.copy(name.Pos(), "copy: each call of %s copies the %s in %s, and the two own the same memory; use a pointer receiver", fn.Name.Name, in, name.Name)
				}
			}
			c.copiesIn(fn.Body)
		}
	}
}

func (c *checker) copiesIn(body *ast.BlockStmt) {
	cleared := c.cleared(body)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			in := c.containerOf(n.Value)
			if _, list := c.typeOf(n.X).Underlying().(*types.Map); in != "" && !list && !cleared[types.ExprString(n.X)] {
				c.copy(n.Value.Pos(), "copy: each iteration copies the %s of an element of %s, and the two own the same memory; use the index", in, types.ExprString(n.X))
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == len(n.Rhs) {
				for i := range n.Rhs {
					c.copyOut(n.Lhs[i], n.Rhs[i], cleared)
				}
			}
		case *ast.ValueSpec:
			if len(n.Names) == len(n.Values) {
				for i := range n.Values {
					c.copyOut(n.Names[i], n.Values[i], cleared)
				}
			}
		case *ast.ReturnStmt:
			c.copiesOut(n.Results, cleared)
		case *ast.CallExpr:
			if !c.pass.TypesInfo.Types[n.Fun].IsBuiltin() {
				c.copiesOut(n.Args, cleared)
			}
		case *ast.CompositeLit:
			c.copiesOut(n.Elts, cleared)
		}
		return true
	})
}

// copiesOut reports what is returned, passed, or put into a struct. What a pointer leads to is left to the flow analysis,
// which knows whether it is used again.
func (c *checker) copiesOut(list []ast.Expr, cleared map[string]bool) {
	for _, x := range list {
		if field, ok := x.(*ast.KeyValueExpr); ok {
			x = field.Value
		}
		if _, ok := ast.Unparen(x).(*ast.StarExpr); !ok {
			c.copyOut(nil, x, cleared)
		}
	}
}

// copyOut reports an assignment of a field, an element, or what a pointer leads to.
func (c *checker) copyOut(to, from ast.Expr, cleared map[string]bool) {
	if id, ok := to.(*ast.Ident); ok && id.Name == "_" {
		return
	}
	from = ast.Unparen(from)
	switch x := from.(type) {
	case *ast.SelectorExpr, *ast.StarExpr:
	case *ast.IndexExpr:
		if _, ok := c.typeOf(x.X).Underlying().(*types.Map); ok {
			return // how else to take it out
		}
	default:
		return
	}
	if in := c.containerOf(from); in != "" && !c.isCleared(from, cleared) {
		c.copy(from.Pos(), "copy: this copies the %s in %s, and the two own the same memory; use a pointer, or AppendChain to move the bytes", in, types.ExprString(from))
	}
}

// cleared are the operands that a function assigns to or clears, by their text.
func (c *checker) cleared(body *ast.BlockStmt) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				return true
			}
			for _, x := range n.Lhs {
				for ; x != nil; x = operandOf(x) {
					out[types.ExprString(x)] = true
					if _, ok := x.(*ast.IndexExpr); !ok {
						break
					}
				}
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "clear" && len(n.Args) == 1 {
				out[types.ExprString(n.Args[0])] = true
			}
		}
		return true
	})
	return out
}

// isCleared reports whether x, or what it is a part of, is assigned to.
func (c *checker) isCleared(x ast.Expr, cleared map[string]bool) bool {
	for ; x != nil; x = operandOf(x) {
		if cleared[types.ExprString(x)] {
			return true
		}
	}
	return false
}

// operandOf is the value of which x is a part, or nil.
func operandOf(x ast.Expr) ast.Expr {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		return x.X
	case *ast.IndexExpr:
		return x.X
	case *ast.StarExpr:
		return x.X
	case *ast.ParenExpr:
		return x.X
	}
	return nil
}

func (c *checker) typeOf(x ast.Expr) types.Type {
	if typ := c.pass.TypesInfo.TypeOf(x); typ != nil {
		return typ
	}
	return types.Typ[types.Invalid]
}

// containerOf is the name of the container in an expression's value.
func (c *checker) containerOf(x ast.Expr) string {
	if x == nil {
		return ""
	}
	return c.kinds.ContainerIn(c.typeOf(x))
}

func (c *checker) copy(pos token.Pos, format string, args ...any) {
	c.reports.Emit(analysis.Diagnostic{Pos: pos, Category: string(report.Copy), Message: fmt.Sprintf(format, args...)}, token.NoPos)
}
