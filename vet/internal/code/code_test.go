package code

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"

	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

const source = `package p

type reader interface{ read(b []byte) error }

type file struct{}

func (file) read(b []byte) error { return leaf(b) }

func top(r reader, n int) error {
	err := r.read(nil)
	with(func() { err = leaf(nil) })
	return err
}

func with(f func()) { f() }

func leaf(b []byte) error { return nil }

func generic[T any](v T) T { return v }

func choose(a, b int, first bool) int {
	x := a
	if first {
		x = b
	}
	return generic(x)
}

func count(list [][]int) (n int) {
	for _, l := range list {
		for range l {
			n++
		}
	}
	return n
}
`

// build returns the functions of the source, in its order, each before its literals.
func build(t *testing.T) (fns []*ssa.Function, named map[string]*ssa.Function) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	config := &types.Config{Importer: importer.Default()}
	pkg, info, err := ssautil.BuildPackage(config, fset, types.NewPackage("p", ""), []*ast.File{file}, 0)
	if err != nil {
		t.Fatal(err)
	}
	named = map[string]*ssa.Function{}
	for _, d := range file.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			fn := pkg.Prog.FuncValue(info.Defs[d.Name].(*types.Func))
			fns = append(append(fns, fn), fn.AnonFuncs...)
			named[d.Name.Name] = fn
		}
	}
	return fns, named
}

func TestCalleesComeFirst(t *testing.T) {
	fns, named := build(t)
	before := func(list []*ssa.Function, a, b string) {
		t.Helper()
		if slices.Index(list, named[a]) > slices.Index(list, named[b]) {
			t.Errorf("%s comes after %s", a, b)
		}
	}
	list := Ordered(fns, nil)
	if len(list) != len(fns) {
		t.Errorf("%d functions of %d", len(list), len(fns))
	}
	before(list, "leaf", "read")
	before(list, "leaf", "top")
	before(list, "with", "top")
	before(list, "generic", "choose")
	literal := named["top"].AnonFuncs[0]
	if at := slices.Index(list, literal); at > slices.Index(list, named["top"]) || at < slices.Index(list, named["with"]) {
		t.Error("a literal is not between the function that gets it and the one that has it")
	}
	// What an interface's method may reach.
	list = Ordered(fns, func(c *ssa.CallCommon) []*ssa.Function {
		if c.IsInvoke() {
			return []*ssa.Function{named["read"]}
		}
		return nil
	})
	before(list, "read", "top")
}

func TestCallsAndTypes(t *testing.T) {
	_, named := build(t)
	operands := map[string]int{}
	calls(named["top"], func(c *ssa.CallCommon) {
		if fn := Callee(c); fn != nil {
			operands[fn.Name()] = len(Operands(c))
		}
	})
	if operands["read"] != 2 || operands["with"] != 1 {
		t.Errorf("operands: %v", operands)
	}
	calls(named["choose"], func(c *ssa.CallCommon) {
		if fn := Callee(c); fn == nil || fn != named["generic"].Object() {
			t.Errorf("an instance of a generic function is %v", fn)
		}
	})
	sig := named["top"].Signature
	if !IsError(sig.Results().At(0).Type()) || IsError(sig.Params().At(1).Type()) || !IsBool(types.Typ[types.Bool]) || IsBool(types.Typ[types.Int]) || !IsFunc(sig) {
		t.Error("types")
	}
	if !IsNil(ssa.NewConst(nil, types.NewSlice(types.Typ[types.Int]))) || IsNil(ssa.NewConst(nil, types.Typ[types.Int])) || IsNil(named["top"].Params[0]) {
		t.Error("nil")
	}
}

func TestLiveValues(t *testing.T) {
	_, named := build(t)
	fn := named["choose"]
	live := Live(fn)
	a, b, first := fn.Params[0], fn.Params[1], fn.Params[2]
	if in := live[0]; !in[a] || !in[b] || !in[first] {
		t.Error("a parameter is not needed at the beginning")
	}
	for _, block := range fn.Blocks[1:] {
		if live[block.Index][first] {
			t.Errorf("the condition is needed in block %d", block.Index)
		}
		for _, instr := range block.Instrs {
			if phi, ok := instr.(*ssa.Phi); ok && live[block.Index][phi] {
				t.Error("a value is needed before it is defined")
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	var n Numbers
	a, b := &ssa.Parameter{}, &ssa.Parameter{}
	if _, known := n.Known(a); known {
		t.Error("a value has a number from the beginning")
	}
	if x, y := n.Of(a), n.Of(b); x == y || n.Of(a) != x || n.Value(x) != ssa.Value(a) || n.Value(y) != ssa.Value(b) {
		t.Errorf("numbers %d and %d", x, y)
	}
	if k, known := n.Known(b); !known || k != n.Of(b) {
		t.Error("a number is not known")
	}
}

func TestLoops(t *testing.T) {
	_, named := build(t)
	if got := Loops(named["choose"]); slices.Contains(got, true) {
		t.Errorf("a function without loops has them at %v", got)
	}
	fn := named["count"]
	for i, again := range Loops(fn) {
		b := fn.Blocks[i]
		_, returns := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
		if want := i > 0 && !returns; again != want {
			t.Errorf("block %v: %v, want %v", b, again, want)
		}
	}
}
