package poolfile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const bufs = `package bufs

import "context"

type Buf struct {
	base
	OnEnd func()
}

func (b *Buf) Bytes() []byte { return nil }
func (b *Buf) Release()      {}
func (b *Buf) Shrink(n int)  {}
func (b *Buf) Len() int      { return 0 }

type base struct{}

func (b *base) Hold() {}

type Slab = Buf

type Pool struct{}

func (p *Pool) Get() *Buf            { return nil }
func (p *Pool) Put(n int, b *Buf)    {}
func Copy(n int, from *Buf) *Buf     { return nil }
func drop(b *Buf)                    {}

func (b *Buf) End(ctx context.Context)               {}
func (p *Pool) Publish(ctx context.Context, b *Buf) {}
func Watch(ctx context.Context)                      {}

var Drop = drop
`

// onlyContext imports a package context that has the type Context alone.
type onlyContext struct{}

func (onlyContext) Import(string) (*types.Package, error) {
	pkg := types.NewPackage("context", "context")
	obj := types.NewTypeName(token.NoPos, pkg, "Context", nil)
	types.NewNamed(obj, types.NewInterfaceType(nil, nil), nil)
	pkg.Scope().Insert(obj)
	pkg.MarkComplete()
	return pkg, nil
}

func check(t *testing.T) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "bufs.go", bufs, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: onlyContext{}}
	pkg, err := config.Check("example.com/bufs", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

func load(t *testing.T, text string) (*Set, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(name)
}

func method(t *testing.T, pkg *types.Package, typ, name string) *types.Func {
	t.Helper()
	if typ == "" {
		return pkg.Scope().Lookup(name).(*types.Func)
	}
	obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(pkg.Scope().Lookup(typ).Type()), true, pkg, name)
	return obj.(*types.Func)
}

func TestLookup(t *testing.T) {
	pkg := check(t)
	set, err := load(t, `
pools:
  - package: example.com/bufs
    release: [Pool.Put, Buf.Release, Buf.Shrink, Buf.End, Pool.Publish, Watch(ctx)]
    view: ["*.Bytes", Copy(from)]
`)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Check(pkg); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		typ, name string
		want      Call
	}{
		{"Pool", "Put", Call{Release, 2}},
		{"Buf", "Release", Call{Release, 0}},
		{"Buf", "Shrink", Call{Release, 0}},
		{"Buf", "End", Call{Release, 0}},
		{"Pool", "Publish", Call{Release, 2}}, // not the context
		{"", "Watch", Call{Release, 0}},       // as it says
		{"Buf", "Bytes", Call{View, 0}},
		{"", "Copy", Call{View, 1}},
	} {
		if got := set.Lookup(method(t, pkg, tt.typ, tt.name)); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s.%s: %v, want %v", tt.typ, tt.name, got, tt.want)
		}
	}
	if got := set.Lookup(method(t, pkg, "Pool", "Get")); len(got) != 0 {
		t.Errorf("Pool.Get: %v", got)
	}
}

// A name that the package does not have, and a field or notation that the file does not have, are errors with the line, which say
// what is meant, or what is near.
func TestMisspelt(t *testing.T) {
	pkg := check(t)
	of := func(lists string) string { return "pools:\n  - package: example.com/bufs\n    " + lists + "\n" }
	for _, tt := range []struct {
		text string
		line string
		want string
	}{
		{of("release: [Pool.Pot]"), ":3:", `release: "Pool.Pot": there is no Pool.Pot; Pool.Put is nearest`},
		{of("view: [Buf.Byts]"), ":3:", `Buf.Bytes is nearest`},
		{of("release: [Bfu.Release]"), ":3:", `Buf.Release is nearest`},
		{of("release:\n      - Pool.Put\n      - Entirely.Other"), ":5:", `there is no Entirely.Other`},
		{of("release: [Pool.Put(c)]"), ":3:", `Put has no parameter c; it has (n, b)`},
		{of("release: [Pool.Put(3)]"), ":3:", `Put has no parameter 3; it has (n, b)`},
		{of("release: [Pool.Put(n)]"), ":3:", `the parameter n is int, which leads to no memory`},
		{of("view: [Copy(receiver)]"), ":3:", `Copy is a function, and has no receiver`},
		{of("release: [Watch]"), ":3:", `Watch has no parameter that holds a reference`},
		{of("release: [Put]"), ":3:", `there is no function Put; Pool.Put is a method`},
		{of("release: [bufs.Copy]"), ":3:", `names are written without the package: Copy`},
		{of("release: [Pool]"), ":3:", `Pool is a type; want a function or Type.Method`},
		{of("release: [Drop]"), ":3:", `Drop is a variable`},
		{of("release: [drop]"), ":3:", `drop is not exported`},
		{of("release: [Copy.Free]"), ":3:", `Copy is no type`},
		{of("release: [Buf.OnEnd]"), ":3:", `Buf.OnEnd is a field, not a method`},
		{of("retain: [Buf.Hold]"), ":3:", `Buf.Hold is declared as base.Hold; name that`},
		{of("release: [Slab.Release]"), ":3:", `Slab.Release is declared as Buf.Release; name that`},
		{of("view: [Buf.Len]"), ":3:", `Len returns no bytes`},
		{of("release: [\"*.Relase\"]"), ":3:", `there is no *.Relase`},
		{of("relase: [Pool.Put]"), ":3:", `a pool has no field relase; release is nearest`},
		{of("Release: [Pool.Put]"), ":3:", `a pool has no field Release; release is nearest`},
		{of("colour: [Pool.Put]"), ":3:", `a pool has no field colour, but package, version, release`},
		{of("release: [Pool.Put]\n    release: [Buf.Release]"), ":4:", `a pool has two fields release`},
		{of("release: [Pool.]"), ":3:", `want Func or Type.Method`},
		{of("release: Pool.Put"), ":3:", `release is a list, as in [Put, Buf.Release]`},
		{of("release: [Pool.Put()]"), ":3:", `write Pool.Put`},
		{of("release: [(*Buf).Release]"), ":3:", `write Buf.Release`},
		{of("release: [\"Pool[T].Put\"]"), ":3:", `write Pool.Put, without type parameters`},
		{of("release: [*Buf.Release]"), "", `a name that begins with * is written in quotes`},
		{of("release: [*.Release]"), "", `a name that begins with * is written in quotes`},
		{of("release: [null]"), ":3:", `release: want a name`},
		{of("version: v1"), ":2:", `no function is named`},
		{"pools:\n  - release: [Pool.Put]\n", ":2:", `a pool has no package`},
		{"pools:\n  - package: ./bufs\n    release: [Put]\n", ":2:", `want an import path`},
		{"pools:\n  package: example.com/bufs\n", ":2:", `pools is a list, as in - package: example.com/bufs`},
		{"pool:\n  - package: example.com/bufs\n", ":1:", `the file has no field pool; pools is nearest`},
		{"- package: example.com/bufs\n", ":1:", `the file has the fields pools`},
		{of("release: [Pool.Put]") + "---\n" + of("view: [Buf.Bytes]"), ":", `a second document`},
	} {
		set, err := load(t, tt.text)
		if err == nil {
			err = set.Check(pkg)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), FileName+tt.line) {
			t.Errorf("%s\n%v, want %q at %s", tt.text, err, tt.want, tt.line)
		}
	}
}

// Each error is reported, not the first alone.
func TestAllErrors(t *testing.T) {
	_, err := load(t, "pools:\n  - package: example.com/bufs\n    relase: [Put]\n    view: [A.B.C]\n")
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Error(err)
	}
}

// A function that two entries mean has the effect once.
func TestOnce(t *testing.T) {
	pkg := check(t)
	set, err := load(t, "pools:\n  - package: example.com/bufs\n    release: [Buf.Release, \"*.Release\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Lookup(method(t, pkg, "Buf", "Release")); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// A file of the other ending of YAML is refused rather than not read.
func TestOtherName(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".tarnvet.yml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Find(dir)); err == nil || !strings.Contains(err.Error(), "the name of this file is .tarnvet.yaml") {
		t.Error(err)
	}
}

// A package that no program has is the project's to know of: its path may be misspelt.
func TestUnmatched(t *testing.T) {
	set, err := load(t, "pools:\n  - {package: example.com/bufs, release: [Put]}\n  - {package: example.com/buffs, release: [Put]}\n  - {package: 'example.com/v*', release: [Put]}\n")
	if err != nil {
		t.Fatal(err)
	}
	got := set.Unmatched(map[string]bool{"example.com/bufs": true, "example.com/v2": true})
	if len(got) != 1 || !strings.Contains(got[0].Text, FileName+":3: package example.com/buffs: ") || !strings.HasSuffix(got[0].Text, "example.com/bufs is nearest") ||
		got[0].Package != "example.com/buffs" || got[0].Nearest != "example.com/bufs" {
		t.Errorf("%q", got)
	}
	builtin, err := Builtin()
	if err != nil || len(builtin.Unmatched(nil)) > 0 {
		t.Errorf("of the built-in contracts: %v, %v", builtin.Unmatched(nil), err)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Find(dir); got != "" {
		t.Errorf("found %s where there is none", got)
	}
	want := filepath.Join(root, FileName)
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Find(dir); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}
