package contracts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/tarn-go/tarn/vet/internal/kinds"
)

const source = `package tarn

type Buffer struct{ p *byte }

type Chain struct{ list []Buffer }

func (c *Chain) Append(b Buffer) {}
func (c *Chain) Len() int { return 0 }

// Put takes ownership of b, and borrows c.
func Put(b, c Buffer) {}

// Try takes ownership of b; with an error it stays the caller's.
func Try(b Buffer) error { return nil }

// Move takes ownership of what c has.
func Move(c *Chain) {}

// Make returns a Buffer to be freed.
func Make() (Buffer, error) { return Buffer{}, nil }

// Find returns a Buffer to be freed if ok is true.
func Find() (b Buffer, ok bool) { return Buffer{}, false }

// Show returns a borrowed Buffer.
func Show() Buffer { return Buffer{} }

// Quiet says nothing.
func Quiet(b Buffer) {}
`

func declared(t *testing.T) (*kinds.Types, *types.Package, map[string]*ast.CommentGroup) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "tarn.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check(kinds.Tarn, fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]*ast.CommentGroup{}
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			docs[fn.Name.Name] = fn.Doc
		}
	}
	return kinds.New(pkg), pkg, docs
}

func TestComments(t *testing.T) {
	known, pkg, docs := declared(t)
	for name, want := range map[string]Contract{
		"Put":  {Params: []Param{Takes, Borrows}, Declared: 3},
		"Try":  {Params: []Param{{Effect: Take, When: IfNil}}, Results: []Result{{}}, Declared: 1},
		"Make": {Results: []Result{{Source: Owned, When: IfNil, At: 1}, {}}},
		"Find": {Results: []Result{{Source: Owned, When: IfTrue, At: 1}, {}}},
		"Move": {Params: []Param{{Effect: Empty}}, Declared: 1},
		"Show": {Results: []Result{{Source: Borrowed}}},
	} {
		got := Declared(known, docs[name], pkg.Scope().Lookup(name).(*types.Func).Signature())
		if got == nil || !got.Says() {
			t.Errorf("%s: nothing is declared", name)
			continue
		}
		for i := range want.Params {
			if got.Param(i) != want.Params[i] {
				t.Errorf("%s: argument %d is %+v, want %+v", name, i, got.Param(i), want.Params[i])
			}
		}
		for i := range want.Results {
			if got.Result(i) != want.Results[i] {
				t.Errorf("%s: result %d is %+v, want %+v", name, i, got.Result(i), want.Results[i])
			}
		}
		if got.Declared != want.Declared {
			t.Errorf("%s: declared are %b, want %b", name, got.Declared, want.Declared)
		}
	}
	if got := Declared(known, docs["Quiet"], pkg.Scope().Lookup("Quiet").(*types.Func).Signature()); got != nil {
		t.Errorf("Quiet: %v", got)
	}
}

func TestPrimitives(t *testing.T) {
	known, pkg, _ := declared(t)
	chain := pkg.Scope().Lookup("Chain").Type()
	method := func(name string) *types.Func {
		obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(chain), false, pkg, name)
		return obj.(*types.Func)
	}
	if c := Primitive(known, method("Append")); c.Param(0).Effect != Fill || c.Param(1) != Takes {
		t.Errorf("Chain.Append: %v", c)
	}
	if c := Primitive(known, method("Len")); c.Param(0) != Borrows {
		t.Errorf("Chain.Len: %v", c)
	}
	if c := Primitive(known, pkg.Scope().Lookup("Put").(*types.Func)); c != nil {
		t.Errorf("Put: %v", c)
	}
	if list := Undeclared(pkg); len(list) == 0 {
		t.Error("no function needs a comment")
	}
	// What is not known is never declared, and says nothing.
	var none *Contract
	if none.Param(1) != (Param{}) || none.Result(1) != (Result{}) || none.NeverNil() || new(Contract).Says() {
		t.Error("the contract of an unknown function says something")
	}
}
