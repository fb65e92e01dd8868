package refs

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// declarations reads the contracts in doc comments of functions and of interfaces' methods, lets
// implementations inherit the latter, and reports exported functions that take a Buffer without saying who
// owns it then.
func (c *Checker) declarations() {
	docs := map[*types.Func]*ast.CommentGroup{}
	names := map[*types.Func]*ast.Ident{}
	var order []*types.Func
	note := func(id *ast.Ident, doc *ast.CommentGroup) {
		if fn, ok := c.pass.TypesInfo.Defs[id].(*types.Func); ok {
			docs[fn], names[fn] = doc, id
			order = append(order, fn)
		}
	}
	for _, file := range c.pass.Files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				note(d.Name, d.Doc)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					ts, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					it, ok := ts.Type.(*ast.InterfaceType)
					if !ok {
						continue
					}
					for _, m := range it.Methods.List {
						doc := m.Doc
						if doc == nil && len(it.Methods.List) == 1 {
							doc = firstDoc(ts.Doc, d.Doc)
						}
						for _, id := range m.Names {
							note(id, doc)
						}
					}
				}
			}
		}
	}
	for _, fn := range order {
		if con := contracts.Declared(c.kinds, docs[fn], fn.Signature()); con != nil {
			c.contracts[fn] = con
		}
	}
	for _, fn := range order {
		if to := c.sibling(fn, contracts.SameAs(docs[fn], fn.Name())); to != nil && c.contracts[to] != nil {
			if con := contracts.As(c.contracts[fn], c.contracts[to], fn.Signature(), to.Signature()); con != nil {
				c.contracts[fn] = con
			}
		}
	}
	c.inherit(order)
	for _, fn := range order {
		c.missing(fn, names[fn])
	}
}

// sibling is the method of fn's receiver, or the function of the package, that has a name.
func (c *Checker) sibling(fn *types.Func, name string) *types.Func {
	if name == "" || name == fn.Name() {
		return nil
	}
	var obj types.Object
	if recv := fn.Signature().Recv(); recv != nil {
		obj, _, _ = types.LookupFieldOrMethod(recv.Type(), true, fn.Pkg(), name)
	} else {
		obj = fn.Pkg().Scope().Lookup(name)
	}
	to, _ := obj.(*types.Func)
	return to
}

func firstDoc(docs ...*ast.CommentGroup) *ast.CommentGroup {
	for _, d := range docs {
		if d != nil {
			return d
		}
	}
	return nil
}

// inherit gives methods the contracts of the interface methods that they implement.
func (c *Checker) inherit(fns []*types.Func) {
	interfaces := c.interfaces()
	for _, fn := range fns {
		recv := fn.Signature().Recv()
		if recv == nil || types.IsInterface(recv.Type()) {
			continue
		}
		for _, it := range interfaces {
			obj, _, _ := types.LookupFieldOrMethod(it, false, fn.Pkg(), fn.Name())
			m, ok := obj.(*types.Func)
			if !ok || !types.Implements(recv.Type(), it) && !types.Implements(types.NewPointer(recv.Type()), it) {
				continue
			}
			from := c.lookup(m)
			if from == nil {
				continue
			}
			own := c.contracts[fn]
			if own == nil {
				own = &contracts.Contract{Params: make([]contracts.Param, len(contracts.Arguments(fn.Signature()))), Results: make([]contracts.Result, fn.Signature().Results().Len())}
				c.contracts[fn] = own
			}
			for i := range own.Params {
				if from.Declared&(1<<i) != 0 && own.Declared&(1<<i) == 0 {
					own.Set(i, from.Params[i])
				}
			}
		}
	}
}

// interfaces lists the interfaces of this package and of those it imports that have a method with a parameter
// that can hold a reference.
func (c *Checker) interfaces() []*types.Interface {
	var list []*types.Interface
	for _, pkg := range append([]*types.Package{c.pass.Pkg}, c.pass.Pkg.Imports()...) {
		for _, name := range pkg.Scope().Names() {
			tn, ok := pkg.Scope().Lookup(name).(*types.TypeName)
			if !ok || pkg != c.pass.Pkg && !tn.Exported() {
				continue
			}
			if named, ok := tn.Type().(*types.Named); ok && named.TypeParams().Len() > 0 {
				continue
			}
			it, ok := tn.Type().Underlying().(*types.Interface)
			if !ok {
				continue
			}
			for m := range it.Methods() {
				if c.kinds.Moves(m.Signature()) {
					list = append(list, it)
					break
				}
			}
		}
	}
	return list
}

// missing reports an exported function that takes a Buffer or container by value without saying
// whether it takes ownership or borrows.
func (c *Checker) missing(fn *types.Func, id *ast.Ident) {
	sig := fn.Signature()
	file := c.pass.Fset.Position(id.Pos()).Filename
	if !fn.Exported() || strings.HasSuffix(file, "_test.go") || c.pass.Pkg.Name() == "main" {
		return
	}
	if r := sig.Recv(); r != nil {
		if named := kinds.NamedOf(r.Type()); named != nil && !named.Obj().Exported() {
			return
		}
		if c.kinds.IsBase(r.Type()) && contracts.Primitive(c.kinds, fn) != nil {
			return
		}
	}
	con := c.contracts[fn]
	for i, v := range contracts.Arguments(sig) {
		if v.Kind() == types.RecvVar {
			continue
		}
		k := c.kinds.Of(v.Type())
		if k != kinds.Handle && k != kinds.Container || con != nil && con.Declared&(1<<i) != 0 {
			continue
		}
		name := v.Name()
		if name == "" || name == "_" {
			name = "it"
		}
		c.reports.Emit(analysis.Diagnostic{
			Pos: id.Pos(), Category: string(report.Comment),
			Message: fmt.Sprintf("comment: %s takes a %s, and its comment does not say whether it \"takes ownership of %s\" or \"borrows %s\" (rule 2)",
				fn.Name(), types.TypeString(v.Type(), c.shortly), name, name),
		}, id.Pos())
	}
}

// shortly qualifies the names of types as source code does.
func (c *Checker) shortly(p *types.Package) string {
	if p == c.pass.Pkg {
		return ""
	}
	return p.Name()
}
