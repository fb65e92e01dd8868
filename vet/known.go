package vet

import "go/types"

// This file lists the analyser's built-in contracts of package tarn: the primitives, whose bodies are the
// implementation of references.

var (
	borrowed = param{Effect: effectBorrow}
	taken    = param{Effect: effectTake}
	takenOK  = param{Effect: effectTake, When: ifTrue, At: 1}
	owned    = result{Source: resultOwned}
	ownedNil = result{Source: resultOwned, When: ifNil, At: 1}
	sameOK   = result{Source: resultSame, When: ifTrue, At: 1}
	nothing  = result{}
)

func fills(rest ...param) *contract {
	return &contract{Params: append([]param{{Effect: effectFill}}, rest...)}
}

func on(e effect, results ...result) *contract {
	return &contract{Params: []param{{Effect: e}}, Results: results}
}

// primitives are methods and functions of package tarn: "Type.Method" or "Func". Others are read from doc
// comments and bodies, as in any package.
var primitives = map[string]*contract{
	"Buffer.Free":     on(effectFree),
	"Buffer.Ref":      on(effectBorrow, result{Source: resultOwned, Shared: true}),
	"Buffer.Slice":    on(effectBorrow, result{Source: resultOwned, Shared: true}),
	"Buffer.Split":    on(effectTake, owned, owned),
	"Buffer.Narrow":   on(effectTake, owned),
	"Buffer.Shrink":   on(effectTake, owned),
	"Buffer.Clone":    on(effectBorrow, owned),
	"Buffer.Join":     {Params: []param{takenOK, takenOK}, Results: []result{sameOK, nothing}},
	"Buffer.GrowTail": {Params: []param{takenOK}, Results: []result{sameOK, nothing}},
	"Buffer.GrowHead": {Params: []param{takenOK}, Results: []result{sameOK, nothing}},
	"Buffer.Bytes":    on(effectBorrow, result{Source: resultView}),
	"Buffer.Len":      on(effectNone), // computed without the slab
	"Buffer.IsZero":   on(effectNone),

	"Pool.Get":      on(effectBorrow, owned),
	"Pool.Copy":     on(effectBorrow, owned),
	"Pool.Wrap":     on(effectBorrow, owned),
	"Pool.Acquire":  on(effectBorrow, ownedNil, nothing),
	"Allocator.Get": on(effectBorrow, owned),

	"NewArena":   {Params: []param{borrowed, borrowed}, Results: []result{{Source: resultHolder}}},
	"Arena.Get":  on(effectFill, owned),
	"Arena.Free": on(effectEmpty),

	"NewWriter":          {Params: []param{borrowed}, Results: []result{{Source: resultHolder}}},
	"Writer.Write":       fills(),
	"Writer.WriteString": fills(),
	"Writer.WriteByte":   fills(),
	"Writer.ReadFrom":    fills(),
	"Writer.Append":      fills(taken),
	"Writer.Take":        on(effectEmpty, owned),
	"Writer.MoveTo":      {Params: []param{{Effect: effectEmpty}, {Effect: effectFill}}},
	"Writer.Free":        on(effectEmpty),
	"Writer.Reset":       on(effectEmpty),

	"Chain.Append":       fills(taken),
	"Chain.Prepend":      fills(taken),
	"Chain.PrependBytes": fills(),
	"Chain.AppendChain":  fills(param{Effect: effectEmpty}),
	"Chain.ReadFrom":     fills(),
	"Chain.Cut":          on(effectDrain, ownedNil, nothing),
	"Chain.CutTo":        {Params: []param{{Effect: effectDrain}, {Effect: effectFill}}},
	"Chain.Next":         on(effectDrain, ownedNil, nothing),
	"Chain.NextSegment":  on(effectDrain, owned),
	"Chain.Discard":      on(effectDrain),
	"Chain.Read":         on(effectDrain),
	"Chain.ReadByte":     on(effectDrain),
	"Chain.WriteTo":      {Params: []param{{Effect: effectDrop, When: ifNil, At: 1}}},
	"Chain.Ref":          on(effectBorrow, owned),
	"Chain.Peek":         on(effectBorrow, result{Source: resultView}, nothing),
	"Chain.Free":         on(effectDrop),
}

// primitive returns the contract of a method or function of package tarn.
func (t *tracked) primitive(fn *types.Func) *contract {
	sig := fn.Signature()
	name := fn.Name()
	pkg := fn.Pkg()
	if r := sig.Recv(); r != nil {
		named := namedOf(r.Type())
		if named == nil {
			return nil
		}
		obj := named.Origin().Obj()
		if k := t.base[obj]; k == untracked && obj.Pkg() != t.tarn {
			return nil
		}
		name = obj.Name() + "." + name
	} else if pkg != t.tarn {
		return nil
	}
	if c := primitives[name]; c != nil {
		return c
	}
	// All other methods of a handle or container only read it.
	if r := sig.Recv(); r != nil && pkg == t.tarn && fn.Exported() && t.isBase(r.Type()) && !t.moves(sig) {
		return on(effectBorrow)
	}
	return nil
}

// isBase reports whether typ is a handle or container, or points to one.
func (t *tracked) isBase(typ types.Type) bool {
	named := namedOf(typ)
	return named != nil && t.base[named.Origin().Obj()] != untracked
}

// moves reports whether a method's parameters or results can carry references.
func (t *tracked) moves(sig *types.Signature) bool {
	for v := range sig.Params().Variables() {
		if t.holds(v.Type()) {
			return true
		}
	}
	for v := range sig.Results().Variables() {
		if t.holds(v.Type()) {
			return true
		}
	}
	return false
}

func namedOf(typ types.Type) *types.Named {
	typ = types.Unalias(typ)
	if p, ok := typ.(*types.Pointer); ok {
		typ = types.Unalias(p.Elem())
	}
	n, _ := typ.(*types.Named)
	return n
}

// Unknown lists the exported functions and methods of package tarn that take or return references and are not
// primitives: their doc comments must state their contracts.
func Unknown(tarn *types.Package) []string {
	t := newTracked(tarn)
	var list []string
	look := func(fn *types.Func) {
		if fn.Exported() && t.moves(fn.Signature()) && t.primitive(fn) == nil {
			list = append(list, fn.FullName())
		}
	}
	for _, name := range tarn.Scope().Names() {
		switch obj := tarn.Scope().Lookup(name).(type) {
		case *types.Func:
			look(obj)
		case *types.TypeName:
			if named, ok := obj.Type().(*types.Named); ok && obj.Exported() {
				for m := range named.Methods() {
					look(m)
				}
			}
		}
	}
	return list
}
