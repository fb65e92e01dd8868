package refs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
)

const tarnSource = `package tarn

type Buffer struct{ p *byte }

func (b Buffer) Free()         {}
func (b Buffer) Bytes() []byte { return nil }
func (b Buffer) Ref() Buffer   { return b }

type Chain struct{ list []Buffer }

func (c *Chain) Append(b Buffer) {}
func (c *Chain) Free()           {}
func (c *Chain) Len() int        { return 0 }

type Pool struct{}

func (p *Pool) Get(n int) Buffer { return Buffer{} }
`

const source = `package p

import "github.com/tarn-go/tarn"

func frees(b tarn.Buffer)                  { b.Free() }
func looks(b tarn.Buffer) int              { return len(b.Bytes()) }
func takes(c *tarn.Chain, b tarn.Buffer)   { c.Append(b) }
func makes(p *tarn.Pool) tarn.Buffer       { return p.Get(10) }
func drops(c *tarn.Chain)                  { c.Free() }
func some(b tarn.Buffer, yes bool)         { if yes { b.Free() } }
func fails(p *tarn.Pool, err error) (tarn.Buffer, error) {
	if err != nil {
		return tarn.Buffer{}, err
	}
	return p.Get(10), nil
}
func accepts(b tarn.Buffer, room bool) bool {
	if !room {
		return false
	}
	b.Free()
	return true
}

func leaks(p *tarn.Pool, yes bool) int {
	b := makes(p)
	if yes {
		return 0
	}
	frees(b)
	return 1
}
func uses(p *tarn.Pool) int {
	b := makes(p)
	frees(b)
	return looks(b)
}
func twice(p *tarn.Pool) {
	b := makes(p)
	defer frees(b)
	b.Free()
}
func correct(p *tarn.Pool, c *tarn.Chain, err error) {
	b, err := fails(p, err)
	if err != nil {
		return
	}
	if !accepts(b, c.Len() < 3) {
		takes(c, b)
	}
}

type owner struct{ a, b tarn.Buffer }

func (o *owner) clear() {
	o.a.Free()
	*o = owner{}
}
`

type known map[string]*types.Package

func (k known) Import(path string) (*types.Package, error) { return k[path], nil }

// analysed is the contract of each function of the source, and the reports by function.
func analysed(t *testing.T) (found map[string]*contracts.Contract, reports map[string][]string) {
	t.Helper()
	fset := token.NewFileSet()
	parse := func(name, text string) *ast.File {
		file, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	config := types.Config{Importer: known{}}
	tarn, err := config.Check(kinds.Tarn, fset, []*ast.File{parse("tarn.go", tarnSource)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := parse("p.go", source)
	user := types.NewPackage("example.com/p", "p")
	pkg, info, err := ssautil.BuildPackage(&types.Config{Importer: known{kinds.Tarn: tarn}}, fset, user, []*ast.File{file}, 0)
	if err != nil {
		t.Fatal(err)
	}
	found, reports = map[string]*contracts.Contract{}, map[string][]string{}
	var fns []*ssa.Function
	var decls []*ast.FuncDecl
	for _, d := range file.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			fns, decls = append(fns, pkg.Prog.FuncValue(info.Defs[d.Name].(*types.Func))), append(decls, d)
		}
	}
	pass := &analysis.Pass{
		Fset: fset, Files: []*ast.File{file}, Pkg: user, TypesInfo: info,
		ImportObjectFact: func(types.Object, analysis.Fact) bool { return false },
		ExportObjectFact: func(fn types.Object, c analysis.Fact) { found[fn.Name()] = c.(*contracts.Contract) },
		Report: func(d analysis.Diagnostic) {
			for _, decl := range decls {
				if decl.Pos() <= d.Pos && d.Pos < decl.End() {
					reports[decl.Name.Name] = append(reports[decl.Name.Name], d.Message)
				}
			}
		},
	}
	c := New(pass, kinds.New(user), report.Index(pass.Files), report.New(pass))
	summary := c.Run(code.Ordered(fns, c.Reached))
	if summary.Functions != len(fns) || len(summary.Provoked) > 0 {
		t.Errorf("%d functions of %d use references", summary.Functions, len(fns))
	}
	return found, reports
}

func TestContractsOfBodies(t *testing.T) {
	found, _ := analysed(t)
	for _, c := range []struct {
		name string
		arg  int
		want contracts.Param
	}{
		{"frees", 0, contracts.Param{Effect: contracts.Free}},
		{"looks", 0, contracts.Borrows},
		{"takes", 0, contracts.Param{Effect: contracts.Fill}},
		{"takes", 1, contracts.Takes},
		{"drops", 0, contracts.Param{Effect: contracts.Drop}},
		{"some", 0, contracts.Param{}},
		{"accepts", 0, contracts.Param{Effect: contracts.Take, When: contracts.IfTrue}},
	} {
		if got := found[c.name].Param(c.arg); got != c.want {
			t.Errorf("%s: argument %d is %+v, want %+v", c.name, c.arg, got, c.want)
		}
	}
	if got := found["makes"].Result(0); got != (contracts.Result{Source: contracts.Owned}) {
		t.Errorf("makes: %+v", got)
	}
	if got := found["fails"].Result(0); got != (contracts.Result{Source: contracts.Owned, When: contracts.IfNil, At: 1}) {
		t.Errorf("fails: %+v", got)
	}
}

func TestReports(t *testing.T) {
	_, reports := analysed(t)
	before, _, _ := strings.Cut(source, "if yes {\n")
	tested := strings.Count(before, "\n") + 1
	for name, want := range map[string]string{
		"leaks": fmt.Sprintf("leak: b from makes is not freed on the path that returns at line %d (where the condition at line %d is true)", tested+1, tested),
		"uses":  "use after free: b was freed at line",
		"twice": "double free: b is freed at line",
		"clear": "leak: o.b is overwritten without having been freed",
	} {
		if len(reports[name]) != 1 || !strings.HasPrefix(reports[name][0], want) {
			t.Errorf("%s: %q", name, reports[name])
		}
		delete(reports, name)
	}
	for name, texts := range reports {
		t.Errorf("%s: %q", name, texts)
	}
}

// A state is a copy, and is recognized by what it knows.
func TestStates(t *testing.T) {
	number := func(ssa.Value) int { return 0 }
	v := &ssa.Parameter{}
	a, b := &ref{id: 1, param: -1}, &ref{id: 2, param: -1}
	s := newState()
	s.lives[a] = life{st: held}
	s.Vals[flow.Of(v)] = binding{refs: []*ref{a}}
	other := s.clone()
	if other.key(number) != s.key(number) {
		t.Error("a copy is another state")
	}
	other.rename(a, b)
	if other.lives[b].st != held || !other.Vals[flow.Of(v)].has(b) || s.lives[a].st != held || !s.Vals[flow.Of(v)].has(a) {
		t.Error("a reference was renamed in the state and in its copy")
	}
	if !other.bound(b, flow.Of(nil)) || other.bound(b, flow.Of(v)) || other.bound(a, flow.Of(nil)) {
		t.Error("what leads to a reference")
	}
	other.forget(b)
	if other.lives[b].st != unknown || other.key(number) == s.key(number) {
		t.Error("a reference that is not followed is")
	}
	both := binding{refs: []*ref{a}}.join(binding{refs: []*ref{a, b}, views: []view{{of: a}}})
	if fmt.Sprint(len(both.refs), len(both.views)) != "2 1" || (binding{}).join(binding{}).empty() != true {
		t.Errorf("%v", both)
	}
}
