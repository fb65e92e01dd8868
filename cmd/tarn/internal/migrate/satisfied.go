package migrate

import (
	"go/ast"
	"go/types"
	"slices"
)

// satisfy finds the interfaces of the program that a library's type implements: their methods stay.
func (p *program) satisfy() {
	var theirs []types.Type
	seen := map[*types.Package]bool{}
	for _, pkg := range p.pkgs {
		for _, lib := range pkg.Types.Imports() {
			if seen[lib] || p.own[lib.Path()] || lib.Path() == grpcPath || lib.Path() == rpcPath {
				continue
			}
			seen[lib] = true
			for _, t := range exported(lib) {
				theirs = append(theirs, t.Type())
			}
		}
	}
	for _, pkg := range p.pkgs {
		for _, f := range pkg.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				if n, ok := n.(*ast.InterfaceType); ok {
					iface := pkg.TypesInfo.TypeOf(n).(*types.Interface)
					if saysGRPC(iface) && slices.ContainsFunc(theirs, func(t types.Type) bool { return implementedBy(t, iface) }) {
						p.satisfied = append(p.satisfied, iface)
					}
				}
				return true
			})
		}
	}
}

// isSatisfied reports whether t is an interface of the program that a library's type implements.
func (p *program) isSatisfied(t types.Type) bool {
	iface, ok := t.Underlying().(*types.Interface)
	return ok && slices.ContainsFunc(p.satisfied, func(s *types.Interface) bool { return types.Identical(s, iface) })
}

// saysGRPC reports whether a type of package grpc is in the signature of one of an interface's methods.
func saysGRPC(iface *types.Interface) bool {
	for m := range iface.Methods() {
		if mentions(m.Signature()) {
			return true
		}
	}
	return false
}

// implementedBy reports whether a type, or a pointer to it, implements an interface.
func implementedBy(t types.Type, iface *types.Interface) bool {
	return types.Implements(t, iface) || types.Implements(types.NewPointer(t), iface)
}

// exported returns a package's exported types.
func exported(pkg *types.Package) []*types.TypeName {
	var all []*types.TypeName
	for _, name := range pkg.Scope().Names() {
		if t, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && t.Exported() {
			all = append(all, t)
		}
	}
	return all
}
