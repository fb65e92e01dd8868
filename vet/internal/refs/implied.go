package refs

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
)

// This file derives contracts of unexported interfaces whose methods have no comments: what all implementations do alike.

// implementations are the methods of the package's types that a call through one of its unexported interfaces may reach; none for
// another call.
func (c *Checker) implementations(fn *types.Func) []*types.Func {
	if fn == nil || fn.Pkg() != c.pass.Pkg || fn.Signature().Recv() == nil {
		return nil
	}
	named, ok := types.Unalias(fn.Signature().Recv().Type()).(*types.Named)
	if !ok || named.Obj().Exported() || named.TypeParams().Len() > 0 || named.Obj().Parent() != c.pass.Pkg.Scope() {
		return nil
	}
	it, ok := named.Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	if list, ok := c.implement[fn]; ok {
		return list
	}
	var list []*types.Func
	scope := c.pass.Pkg.Scope()
	for _, name := range scope.Names() {
		tn, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || tn.IsAlias() || types.IsInterface(tn.Type()) {
			continue
		}
		if t, ok := tn.Type().(*types.Named); !ok || t.TypeParams().Len() > 0 {
			continue
		}
		ptr := types.NewPointer(tn.Type())
		if !types.Implements(ptr, it) {
			continue
		}
		obj, _, _ := types.LookupFieldOrMethod(ptr, false, fn.Pkg(), fn.Name())
		if m, ok := obj.(*types.Func); ok && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	c.implement[fn] = list
	return list
}

// implied is what all implementations of an interface's method do; nil if they differ, or one is not known.
func (c *Checker) implied(fn *types.Func) *contracts.Contract {
	list := c.implementations(fn)
	if len(list) == 0 {
		return nil
	}
	var same *contracts.Contract
	for _, m := range list {
		con := c.contracts[m]
		if con == nil || con.NoReturn {
			return nil
		}
		if same == nil {
			same = &contracts.Contract{Params: slices.Clone(con.Params), Results: slices.Clone(con.Results)}
			continue
		}
		for i := range same.Params {
			same.Params[i] = common(same.Params[i], con.Param(i))
		}
		for i := range same.Results {
			if con.Result(i) != same.Results[i] {
				same.Results[i] = contracts.Result{}
			}
		}
	}
	if len(same.Params) > 0 {
		same.Params[0] = contracts.Param{} // the receiver is the interface
	}
	return same
}

// common is the effect of two implementations. That one frees what it takes makes no difference to the caller.
func common(a, b contracts.Param) contracts.Param {
	if a.Effect == contracts.Free {
		a.Effect = contracts.Take
	}
	if b.Effect == contracts.Free {
		b.Effect = contracts.Take
	}
	if a != b {
		return contracts.Param{}
	}
	return a
}

// Reached are the functions that a call through an interface of the package may reach, as far as that is known.
func (c *Checker) Reached(call *ssa.CallCommon) (list []*ssa.Function) {
	if !call.IsInvoke() {
		return nil
	}
	prog := call.Value.Parent().Prog
	for _, m := range c.implementations(code.Callee(call)) {
		if fn := prog.FuncValue(m); fn != nil {
			list = append(list, fn)
		}
	}
	return list
}
