// Package mutate plants ownership mistakes in correct code, to count how many of them the analyser finds: a
// Free removed, doubled, or moved before a use of its argument.
package mutate

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/driver"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// Kind is the change made to a Free.
type Kind string

// The mutations.
const (
	Remove Kind = "remove"
	Double Kind = "double"
	Early  Kind = "early"  // the Free is moved before the last use
	Forget Kind = "forget" // a call that takes ownership is removed
	After  Kind = "after"  // a Free is added after a call that takes ownership
	Copy   Kind = "copy"   // a Chain, Writer or Arena is copied out of a field or element, or with a receiver
)

// A Mutant is one mistake planted in one file.
type Mutant struct {
	Kind Kind
	Unit *driver.Unit
	File int // index of the file in the unit
	Pos  token.Position
	What string // the freed expression
	// In is the name of the function in whose declaration a Free is: F, or T.M.
	In string
	// Kept is set when the reference is in a field, an element or behind a pointer rather than in a variable:
	// other functions may free it.
	Kept bool
	text []edit
}

type edit struct {
	from, to int
	with     string
}

func (m Mutant) String() string { return fmt.Sprintf("%s: %s %s", m.Pos, m.Kind, m.What) }

// Fits reports whether a finding says what the mutant did: a report of another kind of mistake would mislead its reader.
func (m Mutant) Fits(f driver.Finding) bool {
	switch kind := report.Kind(f.Category); m.Kind {
	case Remove, Forget:
		return kind == report.Leak
	case Double, After:
		return kind == report.Double || kind == report.Use
	case Early: // what used the reference may take it over, return its bytes, or free it
		return kind == report.Use || kind == report.Double || kind == report.Escape
	case Copy: // each copy frees, or loses, what the other one has
		return kind == report.Copy || kind == report.Leak || kind == report.Double || kind == report.Use
	}
	return false
}

// freed reports whether x holds references: Free of a Buffer ends it for good; Free of the other types may be
// repeated.
func freed(info *types.Info, x ast.Expr) (isBuffer, ok bool) {
	t := info.TypeOf(x)
	if t == nil {
		return false, false
	}
	if p, isPtr := t.Underlying().(*types.Pointer); isPtr {
		t = p.Elem()
	}
	return holds(t, 0)
}

func holds(t types.Type, depth int) (isBuffer, ok bool) {
	if depth > 6 {
		return false, false
	}
	if named, isNamed := types.Unalias(t).(*types.Named); isNamed && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "github.com/tarn-go/tarn" {
		switch named.Obj().Name() {
		case "Buffer":
			return true, true
		case "Chain", "Writer", "Arena":
			return false, true
		}
	}
	if s, isStruct := t.Underlying().(*types.Struct); isStruct {
		for f := range s.Fields() {
			ft := f.Type()
			if p, isPtr := ft.Underlying().(*types.Pointer); isPtr {
				ft = p.Elem()
				if named, isNamed := types.Unalias(ft).(*types.Named); !isNamed || named.Obj().Name() != "Chain" {
					continue
				}
			}
			if _, ok := holds(ft, depth+1); ok {
				return false, true
			}
		}
	}
	return false, false
}

// free matches x.Free().
func free(info *types.Info, call *ast.CallExpr) (x ast.Expr, isBuffer, ok bool) {
	sel, isSel := call.Fun.(*ast.SelectorExpr)
	if !isSel || len(call.Args) > 0 || sel.Sel.Name != "Free" && sel.Sel.Name != "free" {
		return nil, false, false
	}
	isBuffer, ok = freed(info, sel.X)
	return sel.X, isBuffer, ok
}

// handedOver matches c.Append(b) and similar calls, on Chain, Writer and wire's Batch and Writer, for a
// variable b.
func handedOver(info *types.Info, call *ast.CallExpr) ast.Expr {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 || sel.Sel.Name != "Append" && sel.Sel.Name != "Prepend" {
		return nil
	}
	fn, ok := info.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Pkg().Path() != "github.com/tarn-go/tarn" && fn.Pkg().Path() != "github.com/tarn-go/tarn/wire" {
		return nil
	}
	if _, ok := call.Args[0].(*ast.Ident); !ok {
		return nil
	}
	if isBuffer, _ := freed(info, call.Args[0]); !isBuffer {
		return nil
	}
	return call.Args[0]
}

// All lists the mutants of a package, except at the positions to skip. noMistake counts those that are left
// out because they change nothing: a Free with nothing to free is removed, or a function that panics on
// purpose is changed. The analyser's result for the correct code says which these are.
func All(u *driver.Unit, src map[string][]byte, skip func(token.Position) bool) (list []Mutant, noMistake int) {
	summary := u.Result.(*vet.Summary)
	provoked := func(n ast.Node) bool {
		return slices.ContainsFunc(summary.Provoked, func(lit ast.Node) bool { return lit.Pos() <= n.Pos() && n.End() <= lit.End() })
	}
	for i, file := range u.Syntax {
		name := u.Fset.Position(file.Pos()).Filename
		if _, ok := src[name]; !ok || implements(u) && !strings.HasSuffix(name, "_test.go") {
			continue
		}
		at := func(p token.Pos) int { return u.Fset.Position(p).Offset }
		text := func(n ast.Node) string { return string(src[name][at(n.Pos()):at(n.End())]) }
		plant := func(stmts []ast.Stmt, k int) {
			stmt := stmts[k]
			var call *ast.CallExpr
			deferred := false
			switch s := stmt.(type) {
			case *ast.ExprStmt:
				call, _ = s.X.(*ast.CallExpr)
			case *ast.DeferStmt:
				call, deferred = s.Call, true
			}
			if call == nil || skip(u.Fset.Position(stmt.Pos())) {
				return
			}
			if arg := handedOver(u.TypesInfo, call); arg != nil && !deferred {
				m := Mutant{Unit: u, File: i, Pos: u.Fset.Position(stmt.Pos()), What: text(arg)}
				m.Kind, m.text = Forget, []edit{{at(stmt.Pos()), at(stmt.End()), "_ = 0"}}
				list = append(list, m)
				m.Kind, m.text = After, []edit{{at(stmt.End()), at(stmt.End()), "; " + text(arg) + ".Free()"}}
				list = append(list, m)
			}
			x, isBuffer, ok := free(u.TypesInfo, call)
			if !ok {
				return
			}
			m := Mutant{Unit: u, File: i, Pos: u.Fset.Position(stmt.Pos()), What: text(x), Kept: kept(u.TypesInfo, x), In: enclosing(file, stmt)}
			m.Kind, m.text = Remove, []edit{{at(stmt.Pos()), at(stmt.End()), gone(x, text(x))}}
			if slices.Contains(summary.Idle, call.Lparen) || !isBuffer && (repeated(stmts, k, text) || freedLater(u.TypesInfo, file, stmt, x)) {
				noMistake++
			} else {
				list = append(list, m)
			}
			if _, isCall := x.(*ast.CallExpr); !isBuffer || isCall || isReceive(x) {
				return
			}
			m.Kind, m.text = Double, []edit{{at(stmt.End()), at(stmt.End()), "; " + text(stmt)}}
			list = append(list, m)
			if deferred {
				return
			}
			if use := lastUse(u.TypesInfo, stmts[:k], x); use != nil {
				m.Kind, m.text = Early, []edit{
					{at(stmt.Pos()), at(stmt.End()), "_ = 0"},
					{at(use.Pos()), at(use.Pos()), text(x) + ".Free(); "},
				}
				list = append(list, m)
			}
		}
		for _, c := range containers(u, file) {
			if !skip(u.Fset.Position(c.at.Pos())) && !provoked(c.at) {
				m := Mutant{Kind: Copy, Unit: u, File: i, Pos: u.Fset.Position(c.at.Pos()), What: text(c.what)}
				m.text = []edit{{at(c.from), at(c.to), c.with(text(c.what))}}
				list = append(list, m)
			}
		}
		block := func(stmts []ast.Stmt) {
			for k, stmt := range stmts {
				before := len(list)
				plant(stmts, k)
				if provoked(stmt) {
					noMistake += len(list) - before
					list = list[:before]
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				block(n.List)
			case *ast.CaseClause:
				block(n.Body)
			case *ast.CommClause:
				block(n.Body)
			}
			return true
		})
	}
	return list, noMistake
}

// enclosing is the name of the function in whose declaration a statement is: F, or T.M.
func enclosing(file *ast.File, stmt ast.Stmt) string {
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || stmt.Pos() < fn.Pos() || fn.End() < stmt.End() {
			continue
		}
		if fn.Recv == nil || len(fn.Recv.List) == 0 {
			return fn.Name.Name
		}
		return strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*") + "." + fn.Name.Name
	}
	return ""
}

// implements reports whether a package implements the types whose use is analysed: their contracts are built in, and their bodies are not
// checked.
func implements(u *driver.Unit) bool {
	return u.PkgPath == "github.com/tarn-go/tarn" || u.ForTest == "github.com/tarn-go/tarn"
}

// repeated reports whether the statement before or after a Free is the same one. What is no Buffer may be freed twice.
func repeated(stmts []ast.Stmt, k int, text func(ast.Node) string) bool {
	return k > 0 && text(stmts[k-1]) == text(stmts[k]) || k+1 < len(stmts) && text(stmts[k+1]) == text(stmts[k])
}

// freedLater reports whether the function, or the one around it, frees a container again when it ends: without an earlier Free, the memory
// is held for longer, which is no leak.
func freedLater(info *types.Info, file *ast.File, stmt ast.Stmt, x ast.Expr) bool {
	id, ok := ast.Unparen(x).(*ast.Ident)
	if !ok {
		return false
	}
	variable := info.Uses[id]
	if variable == nil || !base(variable.Type()) || assigned(info, file, variable) {
		return false
	}
	same := func(call *ast.CallExpr) bool {
		y, _, ok := free(info, call)
		if !ok {
			return false
		}
		other, ok := ast.Unparen(y).(*ast.Ident)
		return ok && info.Uses[other] == variable
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || stmt.Pos() < fn.Pos() || fn.End() <= stmt.Pos() || variable.Pos() < fn.Pos() {
			continue
		}
		for _, s := range fn.Body.List {
			switch s := s.(type) {
			case *ast.DeferStmt:
				if s != stmt && same(s.Call) {
					return true
				}
			case *ast.ExprStmt:
				if call, ok := s.X.(*ast.CallExpr); ok && s != stmt && s.Pos() > stmt.End() && same(call) {
					return true
				}
			}
		}
	}
	return false
}

// base reports whether a type is Chain, Writer or Arena, or points to one.
func base(t types.Type) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "github.com/tarn-go/tarn" && named.Obj().Name() != "Buffer" && container(t, 7)
}

// assigned reports whether a variable gets another value than the one that it is declared with.
func assigned(info *types.Info, file *ast.File, variable types.Object) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for _, l := range a.Lhs {
				id, ok := ast.Unparen(l).(*ast.Ident)
				found = found || ok && info.Uses[id] == variable
			}
		}
		return !found
	})
	return found
}

// prints reports whether a function prints its arguments. Those that have been freed may be printed.
func prints(info *types.Info, call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	fn, ok := info.Uses[sel.Sel].(*types.Func)
	return ok && fn.Pkg() != nil && slices.Contains([]string{"fmt", "log", "log/slog", "testing"}, fn.Pkg().Path())
}

// A copying is a place where a container is used in place, and a change that copies it.
type copying struct {
	at, what ast.Node
	from, to token.Pos
	with     func(what string) string
}

// containers finds the places of a file where a Chain, Writer or Arena is used in a field or element, or through a pointer receiver.
// Package tarn itself copies them on purpose.
func containers(u *driver.Unit, file *ast.File) (list []copying) {
	if implements(u) {
		return nil
	}
	inPlace := func(x ast.Expr) bool {
		switch ast.Unparen(x).(type) {
		case *ast.SelectorExpr, *ast.IndexExpr:
			typ := u.TypesInfo.TypeOf(x)
			return typ != nil && container(typ, 0)
		}
		return false
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || fn.Recv == nil || len(fn.Recv.List) != 1 || len(fn.Recv.List[0].Names) != 1 || fn.Recv.List[0].Names[0].Name == "_" {
			continue
		}
		star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
		if ok && u.TypesInfo.TypeOf(star.X) != nil && container(u.TypesInfo.TypeOf(star.X), 0) {
			list = append(list, copying{fn.Name, star.X, star.Pos(), star.End(), func(typ string) string { return typ }})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			call, ok := n.X.(*ast.CallExpr)
			if !ok {
				break
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && inPlace(sel.X) {
				if _, isMethod := u.TypesInfo.Uses[sel.Sel].(*types.Func); isMethod {
					list = append(list, copying{n, sel.X, n.Pos(), sel.X.End(), func(x string) string { return "copied := " + x + "; copied" }})
				}
			}
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE || len(n.Rhs) != 1 {
				break
			}
			if addr, ok := n.Rhs[0].(*ast.UnaryExpr); ok && addr.Op == token.AND && inPlace(addr.X) {
				list = append(list, copying{n, addr.X, addr.Pos(), addr.End(), func(x string) string { return x }})
			}
		}
		return true
	})
	return list
}

// container reports whether a value of the type is or contains a Chain, Writer or Arena.
func container(t types.Type, depth int) bool {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "github.com/tarn-go/tarn" {
		switch named.Obj().Name() {
		case "Chain", "Writer", "Arena":
			return true
		}
	}
	if depth > 6 {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if container(f.Type(), depth+1) {
				return true
			}
		}
	case *types.Array:
		return container(u.Elem(), depth+1)
	}
	return false
}

// kept reports whether an expression is a field or an element, or a pointer parameter.
func kept(info *types.Info, x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		v, ok := info.Uses[x].(*types.Var)
		if !ok {
			return false
		}
		_, pointer := v.Type().Underlying().(*types.Pointer)
		return pointer && (v.Kind() == types.ParamVar || v.Kind() == types.RecvVar)
	case *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr, *ast.TypeAssertExpr:
		return true
	}
	return false
}

// gone replaces a Free so that the variable stays used.
func gone(x ast.Expr, text string) string {
	if _, ok := x.(*ast.CallExpr); ok || isReceive(x) {
		return text // the call stays, its result is ignored
	}
	return "_ = 0"
}

func isReceive(x ast.Expr) bool {
	u, ok := ast.Unparen(x).(*ast.UnaryExpr)
	return ok && u.Op == token.ARROW
}

// lastUse finds the last statement that needs x's memory, and neither assigns nor frees it.
func lastUse(info *types.Info, stmts []ast.Stmt, x ast.Expr) ast.Stmt {
	want := types.ExprString(x)
	for _, stmt := range slices.Backward(stmts) {
		if changes(info, stmt, want) {
			return nil
		}
		if _, ok := stmt.(*ast.DeferStmt); ok {
			continue
		}
		uses := false
		ast.Inspect(stmt, func(n ast.Node) bool {
			if _, ok := n.(*ast.FuncLit); ok {
				return false
			}
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && types.ExprString(sel.X) == want && sel.Sel.Name != "Len" && sel.Sel.Name != "IsZero" {
					uses = true
				}
				for _, a := range call.Args {
					uses = uses || types.ExprString(a) == want && !prints(info, call)
				}
			}
			return true
		})
		if uses {
			return stmt
		}
	}
	return nil
}

// changes reports whether a statement declares, assigns or frees what expr names.
func changes(info *types.Info, stmt ast.Stmt, expr string) bool {
	found := false
	root, _, _ := strings.Cut(expr, ".")
	ast.Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				text := types.ExprString(l)
				found = found || text == expr || text == root
			}
		case *ast.ValueSpec:
			for _, l := range n.Names {
				found = found || l.Name == root
			}
		case *ast.CallExpr:
			if x, _, ok := free(info, n); ok && types.ExprString(x) == expr {
				found = true
			}
		}
		return !found
	})
	return found
}

// Run plants the mutant and returns the analyser's findings in the package. It returns an error when the
// mutant does not compile.
func (m Mutant) Run(a *analysis.Analyzer, facts *driver.Facts, src map[string][]byte) ([]driver.Finding, error) {
	return m.run(a, facts, src, func(f *ast.File) *ast.File { return f })
}

// Alone is Run with only the function that has the mistake: the effects of the others are known from facts.
// It costs less, and finds mistakes that do not depend on the function's callers.
func (m Mutant) Alone(a *analysis.Analyzer, facts *driver.Facts, src map[string][]byte) ([]driver.Finding, error) {
	found, err := m.run(a, facts, src, func(f *ast.File) *ast.File {
		g := *f
		g.Decls = slices.Clone(f.Decls)
		for i, d := range g.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Type.TypeParams != nil || fn.Recv == nil && (fn.Name.Name == "init" || fn.Name.Name == "main") {
				continue
			}
			from := m.Unit.Fset.Position(fn.Pos())
			if from.Filename == m.Pos.Filename && from.Offset <= m.Pos.Offset && m.Pos.Line <= m.Unit.Fset.Position(fn.End()).Line {
				continue
			}
			without := *fn
			without.Body = nil
			g.Decls[i] = &without
		}
		return &g
	})
	return found, err
}

// Planted is the text of the file with the mistake.
func (m Mutant) Planted(src map[string][]byte) []byte {
	text := slices.Clone(src[m.Pos.Filename])
	edits := slices.Clone(m.text)
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	for _, e := range edits {
		text = slices.Replace(text, e.from, e.to, []byte(e.with)...)
	}
	return text
}

func (m Mutant) run(a *analysis.Analyzer, facts *driver.Facts, src map[string][]byte, trim func(*ast.File) *ast.File) ([]driver.Finding, error) {
	u := m.Unit
	name := u.Fset.Position(u.Syntax[m.File].Pos()).Filename
	text := m.Planted(src)
	fset := u.Fset // type-checking changes neither it nor the unchanged files
	parsed, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	files := slices.Clone(u.Syntax)
	files[m.File] = parsed
	for i, f := range files {
		files[i] = trim(f)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Scopes: map[ast.Node]*types.Scope{}, FileVersions: map[*ast.File]string{},
	}
	conf := types.Config{Importer: importer{u}, Sizes: u.Sizes()}
	if u.Module != nil {
		conf.GoVersion = "go" + u.Module.GoVersion
	}
	var wrong error
	conf.Error = func(err error) {
		if e, ok := err.(types.Error); ok && e.Soft && strings.Contains(e.Msg, " imported ") && strings.HasSuffix(e.Msg, " and not used") {
			return // in files whose bodies were removed; "imported as" if the package's name is not its path's last element
		}
		if wrong == nil {
			wrong = err
		}
	}
	pkg, _ := conf.Check(u.PkgPath, fset, files, info)
	if wrong != nil && (m.Kind == Remove || m.Kind == Forget) && m.text[0].with == "_ = 0" {
		m.text = []edit{m.text[0]}
		m.text[0].with = "_ = " + m.What // the variable is not used anywhere else
		return m.run(a, facts, src, trim)
	}
	if wrong != nil {
		return nil, wrong
	}
	p := *u.Package
	p.Fset, p.Syntax, p.Types, p.TypesInfo = fset, files, pkg, info
	found, err := driver.One(a, &driver.Unit{Package: &p, Reported: true}, facts.Reading())
	// That a directive allows nothing now, as in the functions that were removed, says nothing of the mistake.
	return slices.DeleteFunc(found, func(f driver.Finding) bool { return f.Category == string(report.Directive) }), err
}

// importer returns the packages that were loaded with the unit.
type importer struct{ u *driver.Unit }

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p, ok := i.u.Imports[path]; ok && p.Types != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("%s does not import %s", i.u.PkgPath, path)
}
