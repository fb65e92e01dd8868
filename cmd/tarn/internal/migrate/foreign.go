package migrate

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// returned names the type of package grpc that a function makes: ClientConn, Server or an option; "" for
// others.
func returned(obj types.Object) string {
	fn, ok := obj.(*types.Func)
	if !ok {
		return ""
	}
	res := fn.Signature().Results()
	if res.Len() == 0 {
		return ""
	}
	return nameInGRPC(res.At(0).Type())
}

// nameInGRPC is the name of a type of package grpc or of a pointer to it, "" for others.
func nameInGRPC(t types.Type) string {
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == grpcPath {
		return named.Obj().Name()
	}
	return ""
}

// isOption reports whether obj is an option's type, or a function that returns one.
func isOption(obj types.Object) bool {
	name := returned(obj)
	if t, ok := obj.(*types.TypeName); ok {
		name = strings.TrimPrefix(t.Name(), "Empty")
	}
	return name == "DialOption" || name == "ServerOption"
}

// makes reports whether obj is an option's type, or a function that makes a client, a server or an option.
func makes(obj types.Object) bool {
	made := returned(obj)
	return made == "ClientConn" || made == "Server" || isOption(obj)
}

// foreign reports whether obj stays with grpc-go's types: it is of a package that is not
// being changed, or of a generated file, or a method of an interface that a library's type implements.
func (f *file) foreign(obj types.Object) bool {
	if obj.Pkg() == nil || obj.Pkg().Path() == grpcPath || obj.Pkg().Path() == rpcPath {
		return false
	}
	if !f.p.own[obj.Pkg().Path()] {
		return true
	}
	if fn, ok := obj.(*types.Func); ok && fn.Signature().Recv() != nil && f.p.isSatisfied(fn.Signature().Recv().Type()) {
		return true
	}
	at := f.pkg.Fset.Position(obj.Pos())
	for _, pkg := range f.p.pkgs {
		for _, g := range pkg.Syntax {
			if pkg.Fset.Position(g.Pos()).Filename == at.Filename {
				return ast.IsGenerated(g)
			}
		}
	}
	return false
}

// dictated reports whether what path leads to stands in a signature that grpc-go or a library prescribes:
// an interceptor's or an invoker's, that of a method of a library's interface or of one that a library's type
// implements, or of a function literal in a library's call or struct; or in the body of such a function that
// returns a client or a server of grpc-go.
// A declared function that is handed to a library by its name is not found: it is changed, and then listed as
// what no longer compiles.
func (f *file) dictated(path []ast.Node) bool {
	inSignature := false
	for i, n := range path {
		switch n := n.(type) {
		case *ast.FuncType:
			inSignature = true
			// Of a method of an interface, or a type of functions; those of functions are below.
			if sig, ok := f.pkg.TypesInfo.TypeOf(n).(*types.Signature); ok && f.isInterceptor(sig) {
				return true
			}
		case *ast.InterfaceType:
			if inSignature && f.p.isSatisfied(f.pkg.TypesInfo.TypeOf(n)) {
				return true
			}
		case *ast.FuncLit:
			sig, _ := f.pkg.TypesInfo.TypeOf(n).(*types.Signature)
			if (inSignature || returnsGRPC(sig)) && (f.isInterceptor(sig) || f.forOthers(path[i:], nil)) {
				return true
			}
			inSignature = false
		case *ast.FuncDecl:
			fn, ok := f.pkg.TypesInfo.Defs[n.Name].(*types.Func)
			return ok && (inSignature || returnsGRPC(fn.Signature())) && (f.isInterceptor(fn.Signature()) || f.implements(fn))
		}
	}
	return false
}

// returnsGRPC reports whether a function returns a client or a server of grpc-go.
func returnsGRPC(sig *types.Signature) bool {
	if sig == nil {
		return false
	}
	for v := range sig.Results().Variables() {
		if name := nameInGRPC(v.Type()); name == "ClientConn" || name == "Server" {
			return true
		}
	}
	return false
}

// isInterceptor reports whether a signature is that of a client's interceptor, or of what it calls.
func (f *file) isInterceptor(sig *types.Signature) bool {
	if sig == nil {
		return false
	}
	for v := range sig.Params().Variables() {
		switch name := nameInGRPC(v.Type()); name {
		case "UnaryInvoker", "Streamer":
			return true
		case "ClientConn":
			ptr, ok := v.Type().(*types.Pointer)
			if !ok {
				continue
			}
			scope := ptr.Elem().(*types.Named).Obj().Pkg().Scope()
			for _, name := range []string{"UnaryInvoker", "Streamer"} {
				if o := scope.Lookup(name); o != nil && types.Identical(o.Type().Underlying(), sig) {
					return true
				}
			}
		}
	}
	return false
}

// implements reports whether a library's interface, or one that a library's type implements, prescribes a method of a
// type or of a pointer to it: a method with a value receiver belongs to both.
func (f *file) implements(m *types.Func) bool {
	recv := m.Signature().Recv()
	if recv == nil {
		return false
	}
	prescribes := func(iface *types.Interface) bool {
		if !implementedBy(recv.Type(), iface) {
			return false
		}
		for im := range iface.Methods() {
			if im.Name() == m.Name() {
				return true
			}
		}
		return false
	}
	if slices.ContainsFunc(f.p.satisfied, prescribes) {
		return true
	}
	for _, lib := range f.pkg.Types.Imports() {
		for _, t := range exported(lib) {
			if iface, ok := t.Type().Underlying().(*types.Interface); ok && f.foreign(t) && prescribes(iface) {
				return true
			}
		}
	}
	return false
}
