package migrate

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

// edit replaces the bytes from at to end of a file.
type edit struct {
	at, end int
	text    string
}

// rewrite decides on all changes and returns the files that differ, with their new text.
func (p *program) rewrite() map[string][]byte {
	out := map[string][]byte{}
	seen := map[string]bool{}
	for _, pkg := range p.pkgs {
		for _, f := range pkg.Syntax {
			name := pkg.Fset.Position(f.Pos()).Filename
			if seen[name] || ast.IsGenerated(f) {
				continue
			}
			seen[name] = true
			src, err := os.ReadFile(name)
			if err != nil {
				p.left = append(p.left, err.Error())
				continue
			}
			file := &file{p: p, pkg: pkg, ast: f, name: name, src: src}
			file.walk()
			if text := file.apply(); text != nil {
				out[name] = text
			}
		}
	}
	return out
}

// file is one file being changed.
type file struct {
	p     *program
	pkg   *packages.Package
	ast   *ast.File
	name  string
	src   []byte
	edits []edit
	stay  int // uses of package grpc that stay
	alias string
}

func (f *file) walk() {
	f.alias = f.localName()
	astutil.Apply(f.ast, nil, func(c *astutil.Cursor) bool {
		switch n := c.Node().(type) {
		case *ast.SelectorExpr:
			f.selector(n)
		case *ast.CallExpr:
			f.call(n)
		}
		return true
	})
}

// localName is what the file calls package rpc: another name where rpc is taken.
func (f *file) localName() string {
	for _, s := range f.ast.Imports {
		path := strings.Trim(s.Path.Value, `"`)
		if path == rpcPath {
			if s.Name != nil {
				return s.Name.Name
			}
			return "rpc"
		}
	}
	taken := f.pkg.Types.Scope().Lookup("rpc") != nil
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == "rpc" {
			taken = true
		}
		return true
	})
	if taken {
		return "tarnrpc"
	}
	return "rpc"
}

// selector changes grpc.X to rpc.X where package rpc has an X.
func (f *file) selector(n *ast.SelectorExpr) {
	id, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	pkg, ok := f.pkg.TypesInfo.Uses[id].(*types.PkgName)
	if !ok || pkg.Imported().Path() != grpcPath {
		return
	}
	obj := f.pkg.TypesInfo.Uses[n.Sel]
	if !f.p.theirs[n.Sel.Name] {
		f.stay++
		if what := returned(obj); what != "" && (what != "CallOption") {
			f.leave(n, fmt.Sprintf("grpc.%s has no counterpart in package rpc", n.Sel.Name))
		}
		return
	}
	path, _ := astutil.PathEnclosingInterval(f.ast, n.Pos(), n.End())
	if n.Sel.Name == "ClientConn" && inInterceptor(f.pkg, path) || isOption(obj) && f.forOthers(path, n) {
		f.stay++
		return
	}
	f.replace(id, f.alias)
}

// returned names the type of package grpc that a function of it makes: ClientConn, Server
// or an option; "" for others.
func returned(obj types.Object) string {
	fn, ok := obj.(*types.Func)
	if !ok {
		return ""
	}
	res := fn.Signature().Results()
	if res.Len() == 0 {
		return ""
	}
	t := res.At(0).Type()
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == grpcPath {
		return named.Obj().Name()
	}
	return ""
}

// isOption reports whether obj is an option's type or a function that returns one.
func isOption(obj types.Object) bool {
	name := returned(obj)
	if t, ok := obj.(*types.TypeName); ok {
		name = t.Name()
	}
	return name == "DialOption" || name == "ServerOption"
}

// inInterceptor reports whether a type stands in the signature of a client interceptor, which
// grpc-go's types prescribe.
func inInterceptor(pkg *packages.Package, path []ast.Node) bool {
	for _, n := range path {
		ft, ok := n.(*ast.FuncType)
		if !ok {
			continue
		}
		for _, param := range ft.Params.List {
			switch types.TypeString(pkg.TypesInfo.TypeOf(param.Type), nil) {
			case grpcPath + ".UnaryInvoker", grpcPath + ".Streamer":
				return true
			}
		}
		return false
	}
	return false
}

// forOthers reports whether an option goes straight to a function or a struct of a package
// that stays with grpc-go.
func (f *file) forOthers(path []ast.Node, n *ast.SelectorExpr) bool {
	for _, up := range path {
		switch up := up.(type) {
		case *ast.CallExpr:
			if up.Fun == n {
				continue
			}
			fn := f.callee(up)
			return fn != nil && f.foreign(fn)
		case *ast.CompositeLit:
			if named, ok := f.pkg.TypesInfo.TypeOf(up).(*types.Named); ok {
				return f.foreign(named.Obj())
			}
		case *ast.FuncDecl, *ast.FuncLit:
			return false
		}
	}
	return false
}

func (f *file) callee(c *ast.CallExpr) types.Object {
	switch fun := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		return f.pkg.TypesInfo.Uses[fun]
	case *ast.SelectorExpr:
		return f.pkg.TypesInfo.Uses[fun.Sel]
	}
	return nil
}

// foreign reports whether obj stays with grpc-go's types: it is of a package that is not
// being changed, or of a generated file.
func (f *file) foreign(obj types.Object) bool {
	if obj.Pkg() == nil || obj.Pkg().Path() == grpcPath {
		return false
	}
	if !f.p.own[obj.Pkg().Path()] {
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

// call wraps an argument in AsGRPC where a library's function takes a *grpc.ClientConn.
func (f *file) call(c *ast.CallExpr) {
	fn, ok := f.callee(c).(*types.Func)
	if !ok || !f.foreign(fn) {
		return
	}
	params := fn.Signature().Params()
	for i, arg := range c.Args {
		if i >= params.Len() {
			return
		}
		want := types.TypeString(params.At(i).Type(), nil)
		if types.TypeString(f.pkg.TypesInfo.TypeOf(arg), nil) != want {
			continue
		}
		switch want {
		case "*" + grpcPath + ".ClientConn":
			if made, ok := ast.Unparen(arg).(*ast.CallExpr); ok && f.ofRPC(made) {
				continue
			}
			at := f.offset(arg.Pos())
			f.edits = append(f.edits, edit{at, at, f.alias + ".AsGRPC("}, edit{f.offset(arg.End()), f.offset(arg.End()), ")"})
			f.p.places[f.name]++
		case "*" + grpcPath + ".Server":
			f.leave(arg, fn.FullName()+" takes a *grpc.Server: see docs/migrate-grpc.md")
		}
	}
}

// ofRPC reports whether c calls a function of package rpc.
func (f *file) ofRPC(c *ast.CallExpr) bool {
	obj := f.callee(c)
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == rpcPath
}

func (f *file) offset(pos token.Pos) int { return f.pkg.Fset.Position(pos).Offset }

func (f *file) replace(id *ast.Ident, text string) {
	f.edits = append(f.edits, edit{f.offset(id.Pos()), f.offset(id.End()), text})
	f.p.places[f.name]++
}

func (f *file) leave(n ast.Node, why string) {
	f.p.left = append(f.p.left, fmt.Sprintf("%v: %s", f.pkg.Fset.Position(n.Pos()), why))
}

// apply returns the new text, nil when nothing changes.
func (f *file) apply() []byte {
	if len(f.edits) == 0 {
		return nil
	}
	f.imports()
	slices.SortStableFunc(f.edits, func(a, b edit) int { return a.at - b.at })
	var out bytes.Buffer
	last := 0
	for _, e := range f.edits {
		out.Write(f.src[last:e.at])
		out.WriteString(e.text)
		last = e.end
	}
	out.Write(f.src[last:])
	text, err := format.Source(out.Bytes())
	if err != nil {
		f.leave(f.ast, "the changed file cannot be formatted: "+err.Error())
		return nil
	}
	return text
}

// imports puts package rpc beside package grpc, or in its place when the file does not
// use that any more.
func (f *file) imports() {
	var grpc *ast.ImportSpec
	for _, s := range f.ast.Imports {
		switch strings.Trim(s.Path.Value, `"`) {
		case rpcPath:
			return
		case grpcPath:
			grpc = s
		}
	}
	spec := `"` + rpcPath + `"`
	if f.alias != "rpc" {
		spec = f.alias + " " + spec
	}
	if grpc == nil {
		f.edits = append(f.edits, edit{f.offset(f.ast.Name.End()), f.offset(f.ast.Name.End()), "\n\nimport " + spec + "\n"})
		return
	}
	at, end := f.offset(grpc.Pos()), f.offset(grpc.End())
	switch {
	case f.stay == 0:
		f.edits = append(f.edits, edit{at, end, spec})
	case f.grouped(grpc):
		f.edits = append(f.edits, edit{at, at, spec + "\n\t"})
	default:
		f.edits = append(f.edits, edit{end, end, "\n\nimport " + spec + "\n"})
	}
}

// grouped reports whether an import stands in parentheses.
func (f *file) grouped(s *ast.ImportSpec) bool {
	for _, d := range f.ast.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Pos() <= s.Pos() && s.End() <= g.End() {
			return g.Lparen.IsValid()
		}
	}
	return false
}
