package h2

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the files of this package, a layer above those that it may use. What all share is in none: the types Conn, Stream and Config.
var layers = []string{
	"maker connstate stats",
	"conn read",
	"readheaders readdata control settings ping goaway idle teardown",
	"open write stream streamstate windows prioritize",
	"input moderate deadlines",
	"sender gather put waiting source out counters recent startgate",
	"lifetime inflow scheduler limiter streamset",
	"handler header frame priority errors config tuning instant tcpinfo_linux tcpinfo_other moderate_linux moderate_other doc",
}

// TestStructure counts the arrows between layers, from a file that uses a name to the file of another layer that declares it, and how many of
// them run back up. There are no more than docs/design/h2.md says.
func TestStructure(t *testing.T) {
	const mostUp = 15
	arrows := arrowsIn(t, ".")
	layer := make(map[string]int)
	for i, names := range layers {
		for name := range strings.FieldsSeq(names) {
			layer[name+".go"] = i
		}
	}
	all, up := 0, 0
	for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b arrow) int { return strings.Compare(a.from+a.to, b.from+b.to) }) {
		from, ok := layer[a.from]
		if !ok {
			t.Errorf("%s is in no layer", a.from)
		}
		to := layer[a.to]
		if from != to {
			all++
		}
		if to < from {
			up++
			t.Logf("%s uses %s: %s", a.from, a.to, strings.Join(slices.Sorted(maps.Keys(arrows[a])), " "))
		}
	}
	t.Logf("%d of %d arrows run back up", up, all)
	if up > mostUp {
		t.Errorf("%d arrows run back up, more than %d", up, mostUp)
	}
}

// arrow is from a file to another whose names it uses.
type arrow struct{ from, to string }

// arrowsIn returns the arrows between the files of the package in dir, without tests, and the names for which they are there.
func arrowsIn(t *testing.T, dir string) map[arrow]map[string]bool {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	check := types.Config{Importer: noImports{}, Error: func(error) {}} // names of this package alone are looked for
	pkg, _ := check.Check("h2", set, files, &info)
	arrows := make(map[arrow]map[string]bool)
	for ident, of := range info.Uses {
		if v, is := of.(*types.Var); of.Pkg() != pkg || is && v.IsField() {
			continue
		}
		if name := of.Name(); name == "Conn" || name == "Stream" || name == "Config" {
			continue
		}
		file := func(p token.Pos) string { return filepath.Base(set.Position(p).Filename) }
		a := arrow{file(ident.Pos()), file(of.Pos())}
		if a.from == a.to {
			continue
		}
		if arrows[a] == nil {
			arrows[a] = make(map[string]bool)
		}
		arrows[a][of.Name()] = true
	}
	return arrows
}

// noImports has every import fail.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) { return nil, fmt.Errorf("no %s", path) }
