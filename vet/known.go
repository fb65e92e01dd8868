package vet

import (
	"go/types"
	"strings"
)

// This file is what the analyser knows without looking: the primitives of package tarn, whose
// bodies are the implementation of references, and functions of the standard library.

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

// primitives are methods and functions of package tarn: "Type.Method" or "Func". What is not here
// is read from doc comments and bodies like everybody's.
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
	"Buffer.Len":      on(effectNone), // they are known without the slab
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
	"Writer.Chain":       on(effectEmpty, owned),
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
	// Whatever else a handle or container can do to itself is looking.
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

// endsTest are methods of testing.TB that do not return.
var endsTest = map[string]bool{"Fatal": true, "Fatalf": true, "FailNow": true, "Skip": true, "Skipf": true, "SkipNow": true}

// failsTest are methods of testing.TB after which the test goes on, but has failed: such a path is not followed.
var failsTest = map[string]bool{"Error": true, "Errorf": true, "Fail": true}

// neverReturns reports whether a function of the standard library does not return.
func neverReturns(fn *types.Func) bool {
	if fn.Pkg() == nil {
		return false
	}
	switch path, name := fn.Pkg().Path(), fn.Name(); path {
	case "testing":
		return endsTest[name]
	case "os":
		return name == "Exit"
	case "runtime":
		return name == "Goexit"
	case "log":
		return strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic")
	}
	return false
}

// borrowers are packages of the standard library whose functions keep none of their arguments
// beyond the call.
var borrowers = map[string]bool{
	"bytes": true, "crypto/subtle": true, "encoding/binary": true, "encoding/hex": true, "errors": true, "fmt": true,
	"hash": true, "hash/crc32": true, "io": true, "math/rand": true, "math/rand/v2": true, "reflect": false, "slices": true,
	"strconv": true, "strings": true, "sync": true, "sync/atomic": true, "testing": true, "time": true, "unicode/utf8": true,
	"crypto/rand": true, "crypto/cipher": true, "math": true, "math/bits": true, "log": true, "log/slog": false, "cmp": true,
	"runtime": true, "context": true, "os": true, "net": true,
}

// wrappers are functions of those packages that keep their argument nevertheless.
var wrappers = map[string]bool{
	"io.TeeReader": true, "io.LimitReader": true, "io.MultiReader": true, "io.MultiWriter": true, "io.NewSectionReader": true,
	"io.NopCloser": true, "bytes.NewReader": true, "bytes.NewBuffer": true, "errors.Join": true, "context.WithValue": true,
	"runtime.SetFinalizer": true, "runtime.AddCleanup": true,
}

// borrows reports whether a function of the standard library only looks at its arguments.
func borrowsArguments(fn *types.Func) bool {
	pkg := fn.Pkg()
	if pkg == nil {
		return true // error.Error
	}
	return borrowers[pkg.Path()] && !wrappers[pkg.Path()+"."+fn.Name()]
}

// parts are functions that return bytes of their first argument.
var parts = map[string]bool{
	"bytes.TrimSpace": true, "bytes.Trim": true, "bytes.TrimLeft": true, "bytes.TrimRight": true, "bytes.TrimPrefix": true,
	"bytes.TrimSuffix": true, "bytes.Cut": true, "bytes.CutPrefix": true, "bytes.CutSuffix": true, "slices.Clip": true,
}

// Unknown lists the exported functions and methods of package tarn that take or return references and
// are not among the primitives: their doc comments have to say what they do.
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
