package contracts

import (
	"go/types"

	"github.com/tarn-go/tarn/vet/internal/kinds"
)

// This file lists the analyser's built-in contracts of package tarn: the primitives, whose bodies are the
// implementation of references.

var (
	Borrows   = Param{Effect: Borrow}
	Takes     = Param{Effect: Take}
	takenOK   = Param{Effect: Take, When: IfTrue, At: 1}
	drainsNil = Param{Effect: Drain, When: IfNil, At: 1} // a Chain that is too short stays as it is
	owned     = Result{Source: Owned}
	ownedNil  = Result{Source: Owned, When: IfNil, At: 1}
	sameOK    = Result{Source: Same, When: IfTrue, At: 1}
	nothing   = Result{}
)

func fills(rest ...Param) *Contract {
	return &Contract{Params: append([]Param{{Effect: Fill}}, rest...)}
}

func on(e Effect, results ...Result) *Contract {
	return &Contract{Params: []Param{{Effect: e}}, Results: results}
}

// primitives are methods and functions of package tarn: "Type.Method" or "Func". Others are read from doc
// comments and bodies, as in any package.
var primitives = map[string]*Contract{
	"Buffer.Free":     on(Free),
	"Buffer.Ref":      on(Borrow, Result{Source: Owned, Shared: true}),
	"Buffer.Slice":    on(Borrow, Result{Source: Owned, Shared: true}),
	"Buffer.Split":    on(Take, owned, owned),
	"Buffer.Narrow":   on(Take, owned),
	"Buffer.Shrink":   on(Take, owned),
	"Buffer.Clone":    on(Borrow, owned),
	"Buffer.Join":     {Params: []Param{takenOK, takenOK}, Results: []Result{sameOK, nothing}},
	"Buffer.GrowTail": {Params: []Param{takenOK}, Results: []Result{sameOK, nothing}},
	"Buffer.GrowHead": {Params: []Param{takenOK}, Results: []Result{sameOK, nothing}},
	"Buffer.Bytes":    on(Borrow, Result{Source: View}),
	"Buffer.Len":      on(Ignore), // computed without the slab
	"Buffer.IsZero":   on(Ignore),

	"Pool.Get":      on(Borrow, owned),
	"Pool.Copy":     on(Borrow, owned),
	"Pool.Wrap":     on(Borrow, owned),
	"Pool.Acquire":  on(Borrow, ownedNil, nothing),
	"Allocator.Get": on(Borrow, owned),

	"NewArena":   {Params: []Param{Borrows, Borrows}, Results: []Result{{Source: Holder}}},
	"Arena.Get":  on(Fill, owned),
	"Arena.Free": on(Empty),

	"NewWriter":          {Params: []Param{Borrows}, Results: []Result{{Source: Holder}}},
	"Writer.Write":       fills(),
	"Writer.WriteString": fills(),
	"Writer.WriteByte":   fills(),
	"Writer.ReadFrom":    fills(),
	"Writer.Append":      fills(Takes),
	"Writer.Take":        on(Empty, owned),
	"Writer.MoveTo":      {Params: []Param{{Effect: Empty}, {Effect: Fill}}},
	"Writer.Free":        on(Empty),
	"Writer.Reset":       on(Empty),

	"Chain.Append":       fills(Takes),
	"Chain.Prepend":      fills(Takes),
	"Chain.PrependBytes": fills(),
	"Chain.AppendChain":  fills(Param{Effect: Empty}),
	"Chain.ReadFrom":     fills(),
	"Chain.Cut":          {Params: []Param{drainsNil}, Results: []Result{ownedNil, nothing}},
	"Chain.CutTo":        {Params: []Param{{Effect: Drain, When: IfNil}, {Effect: Fill}}},
	"Chain.Next":         {Params: []Param{drainsNil}, Results: []Result{ownedNil, nothing}},
	"Chain.NextSegment":  on(Drain, owned),
	"Chain.Discard":      on(Drain),
	"Chain.Read":         on(Drain),
	"Chain.ReadByte":     on(Drain),
	"Chain.WriteTo":      {Params: []Param{{Effect: Drop, When: IfNil, At: 1}}},
	"Chain.Ref":          on(Borrow, owned),
	"Chain.Peek":         on(Borrow, Result{Source: View}, nothing),
	"Chain.Free":         on(Drop),
}

// Primitive returns the contract of a method or function of package tarn.
func Primitive(t *kinds.Types, fn *types.Func) *Contract {
	sig := fn.Signature()
	if !t.Declares(fn) {
		return nil
	}
	name := fn.Name()
	if r := sig.Recv(); r != nil {
		name = kinds.NamedOf(r.Type()).Origin().Obj().Name() + "." + name
	}
	if c := primitives[name]; c != nil {
		return c
	}
	// All other methods of a handle or container only read it.
	if r := sig.Recv(); r != nil && t.Has(fn.Pkg()) && fn.Exported() && t.IsBase(r.Type()) && !t.Moves(sig) {
		return on(Borrow)
	}
	return nil
}

// Undeclared lists the exported functions and methods of package tarn that take or return references and are not
// primitives: their doc comments must state their contracts.
func Undeclared(tarn *types.Package) []string {
	t := kinds.New(tarn)
	var list []string
	look := func(fn *types.Func) {
		if fn.Exported() && t.Moves(fn.Signature()) && Primitive(t, fn) == nil {
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
