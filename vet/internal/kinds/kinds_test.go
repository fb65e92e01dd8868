package kinds

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/tarn-go/tarn/vet/internal/places"
)

const tarnSource = `package tarn

type Buffer struct{ p *byte }

func (b Buffer) Free() {}

type Chain struct{ list []Buffer }
type Writer struct{ c Chain }
type Arena struct{ b Buffer }
type Pool struct{}
`

const userSource = `package user

import "github.com/tarn-go/tarn"

type alias = tarn.Buffer
type renamed tarn.Chain
type message struct {
	id   int
	body alias
	err  error
}
type two struct{ head, tail tarn.Buffer }
type outer struct {
	n int
	m message
}
type reply struct {
	body tarn.Buffer
	done chan struct{}
}
type pointed struct{ c *tarn.Chain }
type owner struct {
	b tarn.Buffer
	c *tarn.Chain
}
type generic[T any] struct{ v T }
type failing struct{ a, b error }

var (
	number  int
	bytes   []byte
	runes   []rune
	list    []tarn.Buffer
	pair    [2]tarn.Buffer
	none    [0]tarn.Buffer
	chain   *tarn.Chain
	arena   tarn.Arena
	boxed   generic[tarn.Buffer]
	pool    *tarn.Pool
	visit   func(tarn.Buffer) error
	count   func(int) error
)
`

type imports map[string]*types.Package

func (m imports) Import(path string) (*types.Package, error) { return m[path], nil }

// load returns package tarn's stand-in, and a package that uses it.
func load(t *testing.T) (tarn, user *types.Package) {
	t.Helper()
	fset := token.NewFileSet()
	known := imports{}
	check := func(path, source string) *types.Package {
		file, err := parser.ParseFile(fset, path+".go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		config := types.Config{Importer: known}
		pkg, err := config.Check(path, fset, []*ast.File{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		known[path] = pkg
		return pkg
	}
	return check(Tarn, tarnSource), check("example.com/user", userSource)
}

func TestKinds(t *testing.T) {
	tarn, user := load(t)
	k := New(user)
	typ := func(name string) types.Type { return user.Scope().Lookup(name).Type() }
	for name, want := range map[string]Kind{
		"alias": Handle, "message": Composite, "two": Composite, "outer": Composite, "reply": Composite, "owner": Composite, "pair": Composite, "boxed": Composite,
		"arena": Container, "number": Untracked, "bytes": Untracked, "list": Untracked, "none": Untracked, "chain": Untracked, "pointed": Untracked, "pool": Untracked,
		"renamed": Untracked, // it has none of Chain's methods
	} {
		if got := k.Of(typ(name)); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if k.Pointee(typ("chain")) != Container || !k.Holds(typ("chain")) || k.Pointee(typ("arena")) != Untracked || k.Holds(typ("pool")) {
		t.Error("what pointers hold")
	}
	if !k.Elements(typ("list")) || k.Elements(typ("bytes")) || k.Elements(typ("pair")) {
		t.Error("what slices hold")
	}
	if !IsBytes(typ("bytes")) || IsBytes(typ("runes")) || IsBytes(typ("list")) {
		t.Error("which types are bytes")
	}
	for name, moves := range map[string]bool{"visit": true, "count": false} {
		if k.Moves(typ(name).(*types.Signature)) != moves {
			t.Errorf("%s: can references pass: %v", name, !moves)
		}
	}
	if k.ContainerIn(typ("arena")) != "Arena" || k.ContainerIn(typ("two")) != "" || k.ContainerIn(typ("owner")) != "" {
		t.Error("the container in a type")
	}
	if !k.IsBase(typ("chain")) || k.IsBase(typ("message")) || !k.Has(tarn) || k.Has(user) {
		t.Error("what package tarn declares")
	}
	if !Implements(tarn) || Implements(user) || !Implements(types.NewPackage(Tarn+"/internal/slab", "slab")) || Implements(types.NewPackage(Tarn+"/h2", "h2")) {
		t.Error("which packages implement references")
	}
	free, _, _ := types.LookupFieldOrMethod(tarn.Scope().Lookup("Buffer").Type(), false, tarn, "Free")
	if !k.Declares(free.(*types.Func)) {
		t.Error("Buffer.Free is not package tarn's")
	}
}

func TestTheOnlyReference(t *testing.T) {
	_, user := load(t)
	k := New(user)
	field := func(n int64) places.Step { return places.Step{Kind: places.Field, N: n} }
	for name, want := range map[string]places.Path{
		"message": places.PathOf(field(1)), "outer": places.PathOf(field(1), field(1)), "boxed": places.PathOf(field(0)),
	} {
		if got, ok := k.OnlyLeaf(user.Scope().Lookup(name).Type()); !ok || got != want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"two", "pair", "owner", "alias", "number"} { // several, or no struct
		if _, ok := k.OnlyLeaf(user.Scope().Lookup(name).Type()); ok {
			t.Errorf("%s has one reference", name)
		}
	}
	if at, ok := ErrorField(user.Scope().Lookup("message").Type()); !ok || at != 2 {
		t.Errorf("the error is field %d, %v", at, ok)
	}
	for _, name := range []string{"two", "failing", "number"} {
		if _, ok := ErrorField(user.Scope().Lookup(name).Type()); ok {
			t.Errorf("%s has one error", name)
		}
	}
	for name, tells := range map[string]bool{"message": false, "reply": true, "two": false, "owner": true, "outer": false} {
		if k.Tells(user.Scope().Lookup(name).Type()) != tells {
			t.Errorf("%s: its receiver can tell its sender: %v", name, !tells)
		}
	}
}

// A package that does not use package tarn has no types that hold references; one that uses it through another one has.
func TestWhichPackages(t *testing.T) {
	_, user := load(t)
	other := types.NewPackage("example.com/other", "other")
	if New(other) != nil {
		t.Error("a package without imports has types")
	}
	other.SetImports([]*types.Package{user})
	if k := New(other); k == nil || k.Of(user.Scope().Lookup("message").Type()) != Composite {
		t.Error("a package that imports a user of package tarn has none")
	}
}
