package migrate

import (
	"bytes"
	"cmp"
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

// rewrite decides on all changes. The files that differ are in p.changed afterwards, with their new text.
func (p *program) rewrite() {
	var files []*file
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
				p.left = append(p.left, place{what: err.Error()})
				continue
			}
			files = append(files, &file{p: p, pkg: pkg, ast: f, name: name, src: src})
		}
	}
	p.exclude()
	if p.way == toTarn {
		p.satisfy()
		p.keep(files)
	}
	for _, file := range files {
		file.walk()
		if file.apply() {
			p.changed[file.name] = file
		}
	}
	if p.way == toTarn && len(p.changed) > 0 {
		for _, file := range files {
			file.leaveUnnoticed()
		}
	}
}

// file is one file being changed.
type file struct {
	p      *program
	pkg    *packages.Package
	ast    *ast.File
	name   string
	src    []byte
	uses   []*use // as p.pairs
	edits  []edit
	places int    // changed
	text   []byte // the changed file
}

func (f *file) walk() {
	for _, q := range f.p.pairs {
		f.uses = append(f.uses, &use{pair: q, alias: f.localName(q)})
	}
	astutil.Apply(f.ast, nil, func(c *astutil.Cursor) bool {
		switch n := c.Node().(type) {
		case *ast.SelectorExpr:
			f.selector(n)
		case *ast.CallExpr:
			if f.p.way == toTarn {
				f.call(n)
			}
		}
		return true
	})
}

// selector exchanges one name of a package.
func (f *file) selector(n *ast.SelectorExpr) {
	id, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	pkg, ok := f.pkg.TypesInfo.Uses[id].(*types.PkgName)
	if !ok {
		return
	}
	for _, u := range f.uses {
		if u.from != pkg.Imported().Path() {
			continue
		}
		path, _ := astutil.PathEnclosingInterval(f.ast, n.Pos(), n.End())
		if f.p.way == toTarn && f.toTarn(u, n, path) || f.p.way == toGRPC && f.toGRPC(u, n, path) {
			f.replace(id.Pos(), id.End(), u.alias)
			u.gone++
			u.placed++
		}
	}
}

// toTarn reports whether a name of grpc-go is exchanged, and counts it if it stays.
func (f *file) toTarn(u *use, n *ast.SelectorExpr, path []ast.Node) bool {
	obj, name := f.pkg.TypesInfo.Uses[n.Sel], n.Sel.Name
	made := returned(obj)
	switch {
	case u.from != grpcPath && made == "": // types, which both packages use
	case isOption(obj) && f.forOthers(path, n):
	case f.dictated(path):
		if made == "ClientConn" || made == "Server" {
			f.p.stays = append(f.p.stays, f.at(n, f.base(u.from)+"."+name))
		}
	case f.keeps(path):
	case u.both[name]:
		return true
	case makes(obj):
		f.leave(n, advice(f.base(u.from)+"."+name, f.base(u.to), forward[name]))
	}
	u.stay++
	return false
}

// toGRPC reports whether a name of Tarn is exchanged. Conversions between the two are removed.
func (f *file) toGRPC(u *use, n *ast.SelectorExpr, path []ast.Node) bool {
	if u.err == nil && u.both[n.Sel.Name] {
		return true
	}
	if u.from == rpcPath && (n.Sel.Name == "AsGRPC" || n.Sel.Name == "CallMetricsServerOption") {
		for _, up := range path {
			if c, ok := up.(*ast.CallExpr); ok && c.Fun == n && len(c.Args) == 1 {
				f.replace(c.Pos(), c.Args[0].Pos(), "")
				f.replace(c.Args[0].End(), c.End(), "")
				f.places--
				u.gone++
				return false
			}
		}
	}
	u.stay++
	if u.err != nil {
		f.leave(n, f.notImported(u, n.Sel.Name))
	} else {
		f.leave(n, advice(f.base(u.from)+"."+n.Sel.Name, f.base(u.to), backward[n.Sel.Name]))
	}
	return false
}

// notImported says why a name stays of which it is not known whether the other package has it.
func (f *file) notImported(u *use, name string) string {
	return fmt.Sprintf("package %s has the counterpart of %s.%s; %v", u.to, f.base(u.from), name, u.err)
}

// call wraps an argument in AsGRPC where a library's function or an interceptor takes a *grpc.ClientConn, and the
// option of package orca in its counterpart.
func (f *file) call(c *ast.CallExpr) {
	fn, _ := f.callee(c).(*types.Func)
	if fn == nil || !f.foreign(fn) && !f.staysInGRPC(fn) {
		if sig, ok := f.pkg.TypesInfo.TypeOf(c.Fun).Underlying().(*types.Signature); ok && f.isInterceptor(sig) {
			f.arguments(c, sig.Params(), "an interceptor")
		}
		return
	}
	path, _ := astutil.PathEnclosingInterval(f.ast, c.Pos(), c.End())
	if fn.FullName() == orcaPath+".CallMetricsServerOption" && !f.forOthers(path, nil) && !f.withinRPC(path, c) && !f.dictated(path) {
		f.wrap(c, "CallMetricsServerOption")
		return
	}
	f.arguments(c, fn.Origin().Signature().Params(), fn.FullName()) // a type parameter is what the program makes of it
}

// arguments wraps those in AsGRPC that are not of grpc-go's type any more.
func (f *file) arguments(c *ast.CallExpr, params *types.Tuple, callee string) {
	for i, arg := range c.Args {
		if i >= params.Len() {
			return
		}
		want := types.TypeString(params.At(i).Type(), nil)
		if types.TypeString(f.pkg.TypesInfo.TypeOf(arg), nil) != want || f.ofGRPC(arg) {
			continue
		}
		switch want {
		case "*" + grpcPath + ".ClientConn":
			f.wrap(arg, "AsGRPC")
		case "*" + grpcPath + ".Server":
			f.leave(arg, callee+" takes a *grpc.Server: see \"Servers of libraries\" in docs/migrate-grpc.md")
		}
	}
}

// staysInGRPC reports whether fn is a function of package grpc that package rpc does not have, as grpc.Invoke.
func (f *file) staysInGRPC(fn *types.Func) bool {
	return fn.Pkg() != nil && fn.Pkg().Path() == grpcPath && fn.Signature().Recv() == nil && !f.uses[0].both[fn.Name()]
}

// wrap puts the call of a function of package rpc around an expression.
func (f *file) wrap(e ast.Expr, name string) {
	u := f.uses[0]
	f.replace(e.Pos(), e.Pos(), u.alias+"."+name+"(")
	f.replace(e.End(), e.End(), ")")
	f.places--
	u.placed++
}

// withinRPC reports whether a call is an argument of a function of package rpc.
func (f *file) withinRPC(path []ast.Node, c *ast.CallExpr) bool {
	for _, up := range path {
		if outer, ok := up.(*ast.CallExpr); ok && outer != c {
			return f.ofRPC(outer)
		}
	}
	return false
}

// ofGRPC reports whether an expression remains a type of grpc-go: a parameter whose type a library
// dictates, a variable that is kept, or what a function returns that is not changed.
func (f *file) ofGRPC(e ast.Expr) bool {
	if v := f.variable(e); v != nil && f.p.kept[f.place(v)] {
		return true
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		fn, ok := f.callee(e).(*types.Func)
		if ok && fn.Signature().Results().Len() > 0 && f.p.kept[f.place(fn.Signature().Results().At(0))] {
			return true
		}
		return ok && (f.ofRPC(e) || f.foreign(fn) && (mentions(fn.Origin().Signature().Results()) || slices.ContainsFunc(e.Args, f.ofGRPC)))
	case *ast.Ident:
		obj := f.pkg.TypesInfo.Uses[e]
		if obj == nil || f.pkg.Fset.Position(obj.Pos()).Filename != f.name {
			return false
		}
		path, _ := astutil.PathEnclosingInterval(f.ast, obj.Pos(), obj.Pos())
		if len(path) > 1 {
			if a, ok := path[1].(*ast.AssignStmt); ok && len(a.Rhs) == 1 && f.ofGRPC(a.Rhs[0]) {
				return true
			}
		}
		return f.dictated(path)
	}
	return false
}

// ofRPC reports whether c calls a function of package rpc.
func (f *file) ofRPC(c *ast.CallExpr) bool {
	obj := f.callee(c)
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == rpcPath
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

func (f *file) offset(pos token.Pos) int { return f.pkg.Fset.Position(pos).Offset }

func (f *file) replace(at, end token.Pos, text string) {
	f.edits = append(f.edits, edit{f.offset(at), f.offset(end), text})
	f.places++
}

func (f *file) leave(n ast.Node, why string) { f.p.left = append(f.p.left, f.at(n, why)) }

// at is the place of n, or of the whole call of which it is the function.
func (f *file) at(n ast.Node, what string) place {
	at, last := f.pkg.Fset.Position(n.Pos()), f.pkg.Fset.Position(n.End()).Line
	path, _ := astutil.PathEnclosingInterval(f.ast, n.Pos(), n.End())
	for _, up := range path {
		if c, ok := up.(*ast.CallExpr); ok && c.Fun == n {
			last = f.pkg.Fset.Position(c.End()).Line
		}
	}
	return place{f.name, at.Line, at.Column, last, what}
}

// apply makes the new text and reports whether the file changes.
func (f *file) apply() bool {
	if len(f.edits) == 0 {
		return false
	}
	for _, u := range f.uses {
		f.imports(u)
	}
	slices.SortStableFunc(f.edits, func(a, b edit) int { return cmp.Or(a.at-b.at, a.end-b.end) })
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
		return false
	}
	f.text = text
	return true
}

// preview returns the lines that change, and what they become, before formatting.
func (f *file) preview() string {
	var out strings.Builder
	for rest := f.edits; len(rest) > 0; {
		first := bytes.LastIndexByte(f.src[:rest[0].at], '\n') + 1
		last, n := f.endOfLine(rest[0]), 1
		for ; n < len(rest) && rest[n].at <= last; n++ {
			last = max(last, f.endOfLine(rest[n]))
		}
		changed, from := "", first
		for _, e := range rest[:n] {
			changed += string(f.src[from:e.at]) + e.text
			from = e.end
		}
		changed += string(f.src[min(from, last):last])
		rest = rest[n:]
		old, now := trimmedLines(string(f.src[first:last])), trimmedLines(changed)
		margin := fmt.Sprintf("  %d: ", 1+bytes.Count(f.src[:first], []byte("\n")))
		show := func(sign string, lines, others []string) {
			for _, line := range lines {
				if line != "" && !slices.Contains(others, line) {
					fmt.Fprintf(&out, "%s%s %s\n", margin, sign, line)
					margin = strings.Repeat(" ", len(margin))
				}
			}
		}
		show("-", old, now)
		show("+", now, old)
	}
	return out.String()
}

// trimmedLines returns the lines of a text without the space around them.
func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

// endOfLine returns where the line ends in which an edit ends, without the line break.
func (f *file) endOfLine(e edit) int {
	if e.end > e.at && f.src[e.end-1] == '\n' {
		return e.end - 1
	}
	if i := bytes.IndexByte(f.src[e.end:], '\n'); i >= 0 {
		return e.end + i
	}
	return len(f.src)
}
