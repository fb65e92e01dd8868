package migrate

import (
	"go/ast"
	"go/types"
)

// forOthers reports whether an option or a function literal goes straight to a function or a struct that stays
// with grpc-go, where that has a type of grpc-go for it. Type parameters and any have none: what goes to
// atomic.Pointer, slices.Concat or fx.Provide has the types that the program chooses, and comes back to it.
func (f *file) forOthers(path []ast.Node, n *ast.SelectorExpr) bool {
	for i, up := range path[1:] {
		child := path[i]
		switch up := up.(type) {
		case *ast.CallExpr:
			if n != nil && up.Fun == n {
				continue
			}
			fn := f.callee(up)
			return fn != nil && f.foreign(fn) && mentions(parameter(fn, up, child))
		case *ast.CompositeLit:
			if n != nil && up.Type == n {
				continue
			}
			if named, ok := types.Unalias(f.pkg.TypesInfo.TypeOf(up)).(*types.Named); ok {
				return f.foreign(named.Obj()) && mentions(f.element(named.Origin(), up, child))
			}
		case *ast.FuncDecl, *ast.FuncLit:
			return false
		}
	}
	return false
}

// parameter is the declared type of what a call takes where child is, nil if child is no argument.
func parameter(fn types.Object, c *ast.CallExpr, child ast.Node) types.Type {
	switch g := fn.(type) {
	case *types.TypeName:
		return g.Type() // a conversion
	case *types.Func:
		fn = g.Origin()
	}
	sig, ok := fn.Type().Underlying().(*types.Signature)
	if !ok {
		return nil
	}
	for i, arg := range c.Args {
		if within(arg, child) && sig.Params().Len() > 0 {
			return sig.Params().At(min(i, sig.Params().Len()-1)).Type()
		}
	}
	return nil
}

// element is the declared type of what a composite literal has where child is.
func (f *file) element(t *types.Named, lit *ast.CompositeLit, child ast.Node) types.Type {
	fields, ok := t.Underlying().(*types.Struct)
	if !ok {
		return t
	}
	for i, e := range lit.Elts {
		if !within(e, child) {
			continue
		}
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			key, _ := kv.Key.(*ast.Ident)
			if field, ok := f.pkg.TypesInfo.Uses[key].(*types.Var); ok {
				return field.Origin().Type()
			}
			return nil
		}
		return fields.Field(i).Type()
	}
	return nil
}

func within(outer, n ast.Node) bool { return outer.Pos() <= n.Pos() && n.End() <= outer.End() }

// mentions reports whether a type of package grpc is in t's declaration, fields and methods aside.
func mentions(t types.Type) bool {
	seen := map[types.Type]bool{nil: true}
	var in func(t types.Type) bool
	in = func(t types.Type) bool {
		t = types.Unalias(t)
		if seen[t] {
			return false
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Named:
			if nameInGRPC(t) != "" {
				return true
			}
			for arg := range t.TypeArgs().Types() {
				if in(arg) {
					return true
				}
			}
			return in(t.Underlying())
		case *types.Map:
			return in(t.Key()) || in(t.Elem())
		case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
			return in(t.Elem())
		case *types.Signature:
			return in(t.Params()) || in(t.Results())
		case *types.Tuple:
			for v := range t.Variables() {
				if in(v.Type()) {
					return true
				}
			}
		}
		return false
	}
	return in(t)
}
