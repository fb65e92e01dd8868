package refs

// This file handles functions that pass an argument to a function in another argument: what the call does with
// the first is what the second does with it.

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
)

// handsOn finds the parameter that fn calls exactly once with its parameter p, or once with each element of it,
// if it only borrows p otherwise.
func (c *Checker) handsOn(fn *ssa.Function, p *ssa.Parameter) contracts.Param {
	var to contracts.Param
	for _, u := range *p.Referrers() {
		var now contracts.Param
		switch u := u.(type) {
		case *ssa.DebugRef:
			continue
		case *ssa.IndexAddr:
			now = c.eachTo(fn, u)
		case ssa.CallInstruction:
			if c.borrows(u.Common(), p) {
				continue
			}
			if once(fn, u.Block()) {
				now = callOfParam(fn, u, p, contracts.PassOn)
			}
		}
		if now.Effect == contracts.Unknown || to.Effect != contracts.Unknown {
			return contracts.Param{}
		}
		to = now
	}
	return to
}

// mayHold reports whether a parameter's type can lead to references that its functions get, also in an instance of a
// generic function.
func (c *Checker) mayHold(t types.Type) bool {
	if s, ok := t.Underlying().(*types.Slice); ok {
		t = s.Elem()
	}
	_, generic := types.Unalias(t).(*types.TypeParam)
	return generic || c.kinds.Holds(t)
}

// borrows reports whether a call only looks at v.
func (c *Checker) borrows(call *ssa.CallCommon, v ssa.Value) bool {
	if b, ok := call.Value.(*ssa.Builtin); ok {
		return b.Name() == "len"
	}
	con := c.contractOf(call)
	for i, a := range code.Operands(call) {
		if e := con.Param(i).Effect; a == v && e != contracts.Borrow && e != contracts.Ignore {
			return false
		}
	}
	return true
}

// callOfParam says which argument of a call of one of fn's parameters is v.
func callOfParam(fn *ssa.Function, u ssa.Instruction, v ssa.Value, e contracts.Effect) contracts.Param {
	call, ok := u.(*ssa.Call)
	if !ok {
		return contracts.Param{}
	}
	called, ok := call.Call.Value.(*ssa.Parameter)
	if !ok || call.Call.IsInvoke() {
		return contracts.Param{}
	}
	return contracts.Param{Effect: e, At: int8(slices.Index(fn.Params, called)), As: int8(slices.Index(call.Call.Args, v))}
}

// once reports whether every call of fn that returns has run b once.
func once(fn *ssa.Function, b *ssa.BasicBlock) bool { return onEveryPath(fn, b) && !reaches(b, b) }

func onEveryPath(fn *ssa.Function, b *ssa.BasicBlock) bool {
	for _, end := range fn.Blocks {
		if _, ok := end.Instrs[len(end.Instrs)-1].(*ssa.Return); ok && end != fn.Recover && !b.Dominates(end) {
			return false
		}
	}
	return true
}

// reaches reports whether a path leads from a block to another one, or back to it.
func reaches(from, to *ssa.BasicBlock) bool {
	seen := map[*ssa.BasicBlock]bool{}
	work := slices.Clone(from.Succs)
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		if b == to {
			return true
		}
		if !seen[b] {
			seen[b] = true
			work = append(work, b.Succs...)
		}
	}
	return false
}

// eachTo finds the parameter that fn calls with the element at an address, if it is of a range statement over the
// whole slice whose body is one block.
func (c *Checker) eachTo(fn *ssa.Function, at *ssa.IndexAddr) contracts.Param {
	body := at.Block()
	if body.Comment != "rangeindex.body" || len(body.Preds) != 1 || len(*at.Referrers()) != 1 {
		return contracts.Param{}
	}
	loop := body.Preds[0]
	if len(body.Succs) != 1 || body.Succs[0] != loop || len(loop.Preds) != 2 || !onEveryPath(fn, loop) {
		return contracts.Param{}
	}
	for _, outside := range loop.Preds {
		if outside != body && reaches(loop, outside) {
			return contracts.Param{} // in another loop
		}
	}
	index, ok := at.Index.(*ssa.BinOp)
	load, loads := (*at.Referrers())[0].(*ssa.UnOp)
	if !ok || !loads || !overAll(loop, index, at.X) {
		return contracts.Param{}
	}
	var to contracts.Param
	for _, u := range *load.Referrers() {
		call, ok := u.(ssa.CallInstruction)
		if !ok || u.Block() != body {
			return contracts.Param{}
		}
		if c.borrows(call.Common(), load) {
			continue
		}
		if to.Effect != contracts.Unknown {
			return contracts.Param{}
		}
		if to = callOfParam(fn, u, load, contracts.PassOnEach); to.Effect == contracts.Unknown {
			return contracts.Param{}
		}
	}
	return to
}

// overAll reports whether a block continues a loop while an index is less than the length of a slice.
func overAll(loop *ssa.BasicBlock, index *ssa.BinOp, slice ssa.Value) bool {
	end, ok := loop.Instrs[len(loop.Instrs)-1].(*ssa.If)
	if !ok || index.Block() != loop {
		return false
	}
	test, ok := end.Cond.(*ssa.BinOp)
	if !ok || test.X != ssa.Value(index) {
		return false
	}
	length, ok := test.Y.(*ssa.Call)
	return ok && length.Call.Args[0] == slice
}

// called replaces the effects on arguments that a call passes to a function in another argument by what that one
// does.
func (c *Checker) called(call *ssa.CallCommon, con *contracts.Contract) *contracts.Contract {
	if con == nil || !slices.ContainsFunc(con.Params, contracts.Param.PassesOn) {
		return con
	}
	args := code.Operands(call)
	now := *con
	now.Params = slices.Clone(con.Params)
	for i, p := range now.Params {
		if !p.PassesOn() {
			continue
		}
		now.Params[i] = contracts.Param{}
		if int(p.At) >= len(args) || i >= len(args) {
			continue
		}
		does := c.callback(args[p.At], int(p.As))
		if p.Effect == contracts.PassOnEach {
			does = c.onEach(args[i], does)
		}
		now.Params[i] = does
	}
	return &now
}

// callback is the effect of a function value on its argument i.
func (c *Checker) callback(v ssa.Value, i int) contracts.Param {
	for {
		t, ok := v.(*ssa.ChangeType)
		if !ok {
			break
		}
		v = t.X
	}
	var con *contracts.Contract
	switch v := v.(type) {
	case *ssa.MakeClosure:
		fn := v.Fn.(*ssa.Function)
		if con = c.anon[fn]; con == nil {
			con = c.named(fn)
			i++ // a method value: the receiver is argument 0
		}
	case *ssa.Function:
		if con = c.anon[v]; con == nil && !promoted(v) {
			con = c.named(v)
		}
	}
	p := con.Param(i)
	if p.When != contracts.Always || p.PassesOn() {
		return contracts.Param{}
	}
	return p
}

// named is the contract of a declared function that is used as a value, or of a method value or method expression.
func (c *Checker) named(fn *ssa.Function) *contracts.Contract {
	if o := fn.Origin(); o != nil {
		fn = o
	}
	if obj, ok := fn.Object().(*types.Func); ok {
		return c.lookup(obj.Origin())
	}
	return nil
}

// promoted reports whether a function is a method expression of another type than its receiver's: of a struct in which
// that is embedded, or of a pointer to it.
func promoted(fn *ssa.Function) bool {
	obj, ok := fn.Object().(*types.Func)
	return ok && isMethodValue(fn) && obj.Signature().Recv() != nil && !types.Identical(fn.Signature.Params().At(0).Type(), obj.Signature().Recv().Type())
}

// onEach is the effect on a slice of which every element is passed to a function that does what p says. Which of the
// references in a part of another slice it frees is not tracked.
func (c *Checker) onEach(v ssa.Value, p contracts.Param) contracts.Param {
	of, ok := v.Type().Underlying().(*types.Slice)
	if !ok || c.kinds.Of(of.Elem()) != kinds.Handle {
		return contracts.Param{}
	}
	switch p.Effect {
	case contracts.Borrow, contracts.Ignore:
		return contracts.Borrows
	case contracts.Free, contracts.Take:
		if s, ok := v.(*ssa.Slice); ok && s.Low == nil && s.High == nil && c.kinds.Pointee(s.X.Type()) != kinds.Untracked {
			return contracts.Param{Effect: contracts.Drop} // all elements of an array
		}
	}
	return contracts.Param{}
}
