package migrate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// exclude lists the files that build constraints exclude and that name what would change. They are not loaded, because
// their types are not known without the rest of their build.
func (p *program) exclude() {
	loaded, names := map[string]bool{}, map[string]bool{}
	for _, pkg := range p.pkgs {
		for _, name := range slices.Concat(pkg.GoFiles, pkg.CompiledGoFiles) {
			loaded[name] = true
		}
		for _, name := range pkg.IgnoredFiles {
			names[name] = true
		}
	}
	for _, pattern := range p.patterns {
		for _, name := range p.under(pattern) {
			names[name] = true
		}
	}
	for name := range names {
		if !loaded[name] && strings.HasSuffix(name, ".go") {
			p.excluded(name)
		}
	}
}

// under returns the files below the directory of a pattern such as ./..., in which packages of excluded files alone do
// not match it.
func (p *program) under(pattern string) (files []string) {
	below, all := strings.CutSuffix(pattern, "...")
	if !all || !strings.HasPrefix(pattern, ".") && !filepath.IsAbs(pattern) {
		return nil
	}
	root := below
	if !filepath.IsAbs(root) {
		root = filepath.Join(p.dir, root)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil
	}
	// An error is that of a directory that cannot be read: the packages in it are then missing, too.
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			files = append(files, name)
			return nil
		}
		base := d.Name()
		_, err = os.Stat(filepath.Join(name, "go.mod"))
		if name != root && (err == nil || base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
			return filepath.SkipDir
		}
		return nil
	})
	return files
}

// excluded lists a file that is not part of the build if it names what would change.
func (p *program) excluded(name string) {
	if base := filepath.Base(name); strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return
	}
	for _, q := range p.pairs {
		for _, spec := range file.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == q.from && q.err == nil && (p.way == toGRPC || q.concerns(file, spec)) {
				at := fset.Position(spec.Pos())
				p.left = append(p.left, place{name, at.Line, at.Column, at.Line,
					"build constraints exclude this file, so it is not changed: run tarn migrate with the tags, GOOS and GOARCH " +
						"that include it (GOFLAGS=-tags=..., before anything is changed), or change it by hand"})
			}
		}
	}
}

// concerns reports whether a file that is not type-checked names something of an imported package that would change.
// A *grpc.ClientConn alone does not count: in interceptors it stays.
func (q *pair) concerns(file *ast.File, spec *ast.ImportSpec) (found bool) {
	local := q.api.Name()
	if spec.Name != nil {
		local = spec.Name.Name
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			id, ok := sel.X.(*ast.Ident)
			obj := q.api.Scope().Lookup(sel.Sel.Name)
			found = found || ok && id.Name == local && obj != nil && sel.Sel.Name != "ClientConn" && (q.both[obj.Name()] || makes(obj))
		}
		return !found
	})
	return found
}
