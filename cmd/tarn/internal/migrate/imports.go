package migrate

import (
	"bytes"
	"go/ast"
	"go/token"
	"path"
	"strconv"
)

// use is how a file uses a pair of packages.
type use struct {
	*pair
	alias  string // what the file calls the package that it moves to
	gone   int    // uses of the package that it comes from that are removed
	stay   int    // those that stay
	placed int    // uses of the other package that are added
}

// base is the name of the package with this path.
func (f *file) base(pkg string) string { return path.Base(pkg) }

// imported is the file's import of a package, nil if it has none.
func (f *file) imported(pkg string) *ast.ImportSpec {
	for _, s := range f.ast.Imports {
		if p, err := strconv.Unquote(s.Path.Value); err == nil && p == pkg {
			return s
		}
	}
	return nil
}

// localName is what the file calls the package that q leads to: another name where the package's is taken.
func (f *file) localName(q *pair) string {
	name := f.base(q.to)
	if s := f.imported(q.to); s != nil {
		if s.Name != nil {
			return s.Name.Name
		}
		return name
	}
	taken := f.pkg.Types.Scope().Lookup(name) != nil
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			taken = true
		}
		return true
	})
	switch {
	case !taken:
		return name
	case f.p.way == toTarn:
		return "tarn" + name
	}
	return "stock" + name
}

// imports puts the package that u leads to beside the one it comes from, or in its place when the file does
// not use that any more.
func (f *file) imports(u *use) {
	from, left := f.imported(u.from), u.gone > 0 && u.stay == 0
	needed := u.placed > 0 && f.imported(u.to) == nil
	spec := strconv.Quote(u.to)
	if u.alias != f.base(u.to) {
		spec = u.alias + " " + spec
	}
	insert := func(at int, text string) { f.edits = append(f.edits, edit{at, at, text}) }
	switch {
	case needed && from == nil:
		insert(f.offset(f.ast.Name.End()), "\n\nimport "+spec)
	case needed && left:
		f.edits = append(f.edits, edit{f.offset(from.Pos()), f.offset(from.End()), spec})
	case needed && f.decl(from).Lparen.IsValid():
		insert(f.offset(from.Pos()), spec+"\n\t")
	case needed:
		insert(f.offset(from.End()), "\nimport "+spec)
	case left && from != nil:
		f.remove(from)
	}
}

// decl is the declaration that an import stands in.
func (f *file) decl(s *ast.ImportSpec) *ast.GenDecl {
	for _, d := range f.ast.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT && g.Pos() <= s.Pos() && s.End() <= g.End() {
			return g
		}
	}
	return nil
}

// remove removes an import and its line, its declaration when nothing else stands in it, and the blank line that
// gofmt would remove then: newLine does not know of that.
func (f *file) remove(s *ast.ImportSpec) {
	at, end := f.offset(s.Pos()), f.offset(s.End())
	if d := f.decl(s); len(d.Specs) == 1 {
		at, end = f.offset(d.Pos()), f.offset(d.End())
	}
	at = bytes.LastIndexByte(f.src[:at], '\n') + 1
	if i := bytes.IndexByte(f.src[end:], '\n'); i >= 0 {
		end += i + 1
	}
	before, after := f.src[:at], f.src[end:]
	switch blank := bytes.HasSuffix(before, []byte("\n\n")); {
	case (blank || bytes.HasSuffix(before, []byte("(\n"))) && bytes.HasPrefix(after, []byte("\n")):
		end++
	case blank && bytes.HasPrefix(after, []byte(")")):
		at--
	}
	f.edits = append(f.edits, edit{at, end, ""})
}
