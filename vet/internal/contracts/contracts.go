// Package contracts says what functions do with references to Tarn's memory: what they take, borrow, fill and return. The contracts of
// package tarn are a table, those of other functions are read from doc comments, or inferred by the analysis.
package contracts

import (
	"fmt"
	"go/types"
	"strings"

	"github.com/tarn-go/tarn/vet/internal/code"
)

// Effect is the effect of a call on an argument that holds a reference.
type Effect uint8

const (
	Unknown    Effect = iota // unknown: the reference is not tracked any further
	Ignore                   // allowed even after the reference has ended
	Borrow                   // used during the call only
	Take                     // ownership moves to the callee
	Free                     // as Take; freeing is the callee's purpose
	Fill                     // a container may hold references afterwards
	Empty                    // a container holds no references afterwards
	Drop                     // a container is emptied and its views end
	Drain                    // some bytes are removed from a container: it may be empty afterwards
	Send                     // as Take, through a channel, by which it may be returned
	Keep                     // bytes, or a function that may lead to bytes, are stored beyond the call
	FillLeaf                 // the only reference in a struct may be set afterwards, for the caller to free
	PassOn                   // passed once to the function in argument At, as its argument As
	PassOnEach               // the elements of a slice are, one by one
)

func (e Effect) String() string {
	return [...]string{"unknown", "ignores", "borrows", "takes", "frees", "fills", "empties", "drops", "drains", "sends", "keeps", "fills a field", "passes on", "passes on each"}[e]
}

// When says for which result of a call an effect or result holds.
type When uint8

const (
	Always   When = iota
	IfNil         // the result At, an error, is nil
	IfTrue        // the result At, a bool, is true
	IfFalse       // the result At, a bool, is false
	IfOwnNil      // the field At of the result itself, an error, is nil
)

// Source says where a result comes from.
type Source uint8

const (
	UnknownResult Source = iota
	Owned                // a reference that the caller must free
	Same                 // the reference of argument Of, when When holds; otherwise the argument keeps it
	Borrowed             // a reference that the caller does not own
	Maybe                // a reference to free, or none, for unknown reasons
	View                 // bytes of the argument Of
	Lent                 // bytes of the argument Of, valid until its next method is called
	Cleaned              // a reference that is freed when the test ends
	Holder               // a pointer to an empty container that the caller owns
	Holding              // a pointer to a container that the caller owns and must free
)

// Param is the effect on an argument.
type Param struct {
	Effect Effect
	When   When
	At     int8 // the result to which When applies; of PassOn, an argument
	As     int8
}

// Result is what the caller gets.
type Result struct {
	Source Source
	When   When
	At     int8 // the result, or the field, to which When applies
	Of     int8 // an argument; the receiver is argument 0
	Inside bool // of a view: the result is not the bytes, but leads to them
	Shared bool // shares the memory of argument Of
}

// A Contract describes the effects of a call on references. Arguments are numbered as in package ssa: the
// receiver first. It is exported between packages as a fact.
type Contract struct {
	Params  []Param
	Results []Result
	// NoReturn is set for a function that never returns.
	NoReturn bool
	// NilErr has bit i set if argument i, an error, is nil when the function has returned.
	NilErr uint64
	// Recovers is set for a function that recovers from panics: a function passed to it may panic on purpose.
	Recovers bool
	// NonNil is set if the last result, an error, is never nil.
	NonNil bool
	// Writes has bit i set if argument i, bytes, is written.
	Writes uint64
	// Declared has bit i set if the doc comment states argument i's effect.
	Declared uint64
}

// AFact makes a contract an analysis.Fact.
func (*Contract) AFact() {}

func (c *Contract) String() string {
	var s []string
	for i, p := range c.Params {
		if p.Effect != Unknown {
			s = append(s, fmt.Sprintf("%d:%v", i, p.Effect))
		}
	}
	for i, r := range c.Results {
		if r.Source == Owned {
			s = append(s, fmt.Sprintf("result %d:owned", i))
		}
	}
	if c.NoReturn {
		s = append(s, "never returns")
	}
	return strings.Join(s, " ")
}

// Param returns the effect on argument i; the last parameter's for variadic ones.
func (c *Contract) Param(i int) Param {
	if c == nil || i >= len(c.Params) {
		return Param{}
	}
	return c.Params[i]
}

// Result returns what result i is.
func (c *Contract) Result(i int) Result {
	if c == nil || i >= len(c.Results) {
		return Result{}
	}
	return c.Results[i]
}

// Says reports whether the contract contains anything to export.
func (c *Contract) Says() bool {
	if c.NoReturn || c.NilErr != 0 || c.Writes != 0 || c.NonNil || c.Recovers {
		return true
	}
	for _, p := range c.Params {
		if p.Effect != Unknown {
			return true
		}
	}
	for _, r := range c.Results {
		if r.Source != UnknownResult {
			return true
		}
	}
	return false
}

// Arguments lists the parameters of sig as package ssa numbers them.
func Arguments(sig *types.Signature) []*types.Var {
	var vars []*types.Var
	if r := sig.Recv(); r != nil {
		vars = append(vars, r)
	}
	for v := range sig.Params().Variables() {
		vars = append(vars, v)
	}
	return vars
}

// Outcome is a condition on a result.
type Outcome struct {
	When When
	At   int8
}

// OK is the result of the name ok, a bool: if there is one, it says whether there is a reference, even
// if there is an error, too.
func OK(sig *types.Signature) (at int8, ok bool) {
	for i := range sig.Results().Len() {
		if v := sig.Results().At(i); v.Name() == "ok" && code.IsBool(v.Type()) {
			return int8(i), true
		}
	}
	return 0, false
}

// Outcomes lists the results of sig that distinguish success from failure: errors first, since rule 4 is
// about them.
func Outcomes(sig *types.Signature) []Outcome {
	var list []Outcome
	for i := sig.Results().Len() - 1; i >= 0; i-- {
		if code.IsError(sig.Results().At(i).Type()) {
			list = append(list, Outcome{IfNil, int8(i)})
		}
	}
	for i := sig.Results().Len() - 1; i >= 0; i-- {
		if code.IsBool(sig.Results().At(i).Type()) {
			list = append(list, Outcome{IfTrue, int8(i)})
		}
	}
	return list
}

// PassesOn reports whether the argument is passed to a function in another argument: what the call does with it is what that
// one does.
func (p Param) PassesOn() bool { return p.Effect == PassOn || p.Effect == PassOnEach }

// NilErrs reports whether errors among the arguments are nil when the function has returned.
func (c *Contract) NilErrs() bool { return c != nil && c.NilErr != 0 }

// NeverNil reports whether the last result, an error, is never nil.
func (c *Contract) NeverNil() bool { return c != nil && c.NonNil }
