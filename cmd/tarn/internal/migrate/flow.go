package migrate

import (
	"fmt"
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/ast/astutil"
)

// flow is where the clients and servers in a program's variables come from. Fields, parameters and results are
// variables, too. A variable has its place as its name, because packages and their tests have objects of
// their own for it.
type flow struct {
	into    map[string][]string // for a variable, those that are assigned to it
	library map[string]bool     // those that get a library's
	own     map[string]bool     // those that get the program's own, or what is not known
}

// keep finds the variables that get nothing but what libraries make with grpc-go: their types stay.
func (p *program) keep(files []*file) {
	w := flow{into: map[string][]string{}, library: map[string]bool{}, own: map[string]bool{}}
	for _, f := range files {
		f.flows(&w)
	}
	for _, from := range w.into {
		for _, v := range from {
			if w.into[v] == nil {
				w.own[v] = w.own[v] || !w.library[v]
			}
		}
	}
	w.spread(w.library)
	w.spread(w.own)
	for v := range w.library {
		p.kept[v] = !w.own[v]
	}
}

// spread adds the variables that get something of those of a set.
func (w *flow) spread(set map[string]bool) {
	for again := true; again; {
		again = false
		for v, from := range w.into {
			for _, u := range from {
				if set[u] && !set[v] {
					set[v], again = true, true
				}
			}
		}
	}
}

// flows adds what a file's statements and expressions assign.
func (f *file) flows(w *flow) {
	var signatures []*types.Signature // of the functions around
	astutil.Apply(f.ast, func(c *astutil.Cursor) bool {
		switch n := c.Node().(type) {
		case *ast.FuncDecl:
			signatures = append(signatures, f.pkg.TypesInfo.Defs[n.Name].Type().(*types.Signature))
		case *ast.FuncLit:
			signatures = append(signatures, f.pkg.TypesInfo.TypeOf(n).(*types.Signature))
		case *ast.ReturnStmt:
			results := signatures[len(signatures)-1].Results()
			for i := range results.Len() {
				f.assign(w, results.At(i), n.Results, i)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				f.assign(w, f.variable(to), n.Rhs, i)
			}
		case *ast.ValueSpec:
			for i, to := range n.Names {
				f.assign(w, f.variable(to), n.Values, i)
			}
		case *ast.CompositeLit:
			if fields, ok := f.pkg.TypesInfo.TypeOf(n).Underlying().(*types.Struct); ok {
				for i := range min(fields.NumFields(), len(n.Elts)) {
					if _, keyed := n.Elts[i].(*ast.KeyValueExpr); !keyed {
						f.assign(w, fields.Field(i), n.Elts[i:i+1], 0)
					}
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				f.assign(w, f.variable(key), []ast.Expr{n.Value}, 0)
			}
		case *ast.CallExpr:
			if fn, ok := f.callee(n).(*types.Func); ok && !f.foreign(fn) {
				params := fn.Signature().Params()
				for i := range min(params.Len(), len(n.Args)) {
					f.assign(w, params.At(i), n.Args, i)
				}
			}
		}
		return true
	}, func(c *astutil.Cursor) bool {
		switch c.Node().(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			signatures = signatures[:len(signatures)-1]
		}
		return true
	})
}

// assign adds that a variable gets value i of a list, or of the only call in it.
func (f *file) assign(w *flow, to *types.Var, values []ast.Expr, i int) {
	if to == nil || len(values) == 0 || !isClientOrServer(to.Type()) {
		return
	}
	result := 0
	if len(values) == 1 {
		i, result = 0, i
	}
	if i >= len(values) {
		return
	}
	name := f.place(to)
	switch v := f.variable(values[i]); e := ast.Unparen(values[i]).(type) {
	case *ast.CallExpr:
		fn, ok := f.callee(e).(*types.Func)
		switch {
		case ok && f.foreign(fn) && mentions(fn.Origin().Signature().Results()):
			w.library[name] = true
		case ok && fn.Pkg() != nil && f.p.own[fn.Pkg().Path()] && result < fn.Signature().Results().Len():
			w.into[name] = append(w.into[name], f.place(fn.Signature().Results().At(result)))
		default:
			w.own[name] = true
		}
	default:
		switch {
		case f.pkg.TypesInfo.Types[values[i]].IsNil():
		case v == nil:
			w.own[name] = true
		case f.ofGRPC(e):
			w.library[name] = true
		default:
			w.into[name] = append(w.into[name], f.place(v))
		}
	}
}

// variable is the variable or field that an expression names, nil for others.
func (f *file) variable(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if sel, isSel := ast.Unparen(e).(*ast.SelectorExpr); isSel {
		id, ok = sel.Sel, true
	}
	if !ok {
		return nil
	}
	v, _ := f.pkg.TypesInfo.ObjectOf(id).(*types.Var)
	return v
}

func (f *file) place(v *types.Var) string { return fmt.Sprint(f.pkg.Fset.Position(v.Pos())) }

// keeps reports whether path leads to the type of a variable that is kept.
func (f *file) keeps(path []ast.Node) bool {
	if len(path) < 3 {
		return false
	}
	var names []*ast.Ident
	switch d := path[2].(type) {
	case *ast.Field:
		names = d.Names
	case *ast.ValueSpec:
		names = d.Names
	}
	for _, id := range names {
		if f.p.kept[fmt.Sprint(f.pkg.Fset.Position(id.Pos()))] {
			return true
		}
	}
	return len(names) == 0 && f.p.kept[fmt.Sprint(f.pkg.Fset.Position(path[1].Pos()))]
}

func isClientOrServer(t types.Type) bool {
	name := nameInGRPC(t)
	return name == "ClientConn" || name == "Server"
}
