package poolfile

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const bufs = `package bufs

type Buf struct{}

func (b *Buf) Bytes() []byte { return nil }
func (b *Buf) Release()      {}
func (b *Buf) Shrink(n int)  {}

type Pool struct{}

func (p *Pool) Get() *Buf            { return nil }
func (p *Pool) Put(n int, b *Buf)    {}
func Copy(n int, from *Buf) *Buf     { return nil }
`

func check(t *testing.T) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "bufs.go", bufs, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := types.Config{Importer: importer.Default()}
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
    release: [Pool.Put, Buf.Release, Buf.Shrink]
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

// A name that the package does not have, and a field or notation that the file does not have, are errors that say
// what is near.
func TestMisspelt(t *testing.T) {
	pkg := check(t)
	for text, want := range map[string]string{
		"pools: [{package: example.com/bufs, release: [Pool.Pot]}]":       `release: "Pool.Pot": there is no Pool.Pot; Pool.Put is nearest`,
		"pools: [{package: example.com/bufs, view: [Buf.Byts]}]":          `Buf.Bytes is nearest`,
		"pools: [{package: example.com/bufs, release: [Entirely.Other]}]": `there is no Entirely.Other`,
		"pools: [{package: example.com/bufs, release: [Pool.Put(c)]}]":    `has no parameter c`,
		"pools: [{package: example.com/bufs, relase: [Pool.Put]}]":        `relase`,
		"pools: [{package: example.com/bufs, release: [Pool.]}]":          `want Func or Type.Method`,
		"pools: [{release: [Pool.Put]}]":                                  `has no package`,
	} {
		set, err := load(t, text)
		if err == nil {
			err = set.Check(pkg)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A package that no program has is the project's to know of: its path may be misspelt.
func TestUnmatched(t *testing.T) {
	set, err := load(t, "pools:\n  - {package: example.com/bufs, release: [Put]}\n  - {package: example.com/buffs, release: [Put]}\n  - {package: 'example.com/v*', release: [Put]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Unmatched(map[string]bool{"example.com/bufs": true, "example.com/v2": true}); !slices.Equal(got, []string{"example.com/buffs"}) {
		t.Errorf("%q", got)
	}
	builtin, err := Builtin()
	if err != nil || len(builtin.Unmatched(nil)) > 0 {
		t.Errorf("of the built-in contracts: %q, %v", builtin.Unmatched(nil), err)
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
