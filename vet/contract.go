package vet

import (
	"fmt"
	"go/types"
	"strings"

	"github.com/tarn-go/tarn/vet/internal/code"
)

// effect is the effect of a call on an argument that holds a reference.
type effect uint8

const (
	effectUnknown  effect = iota // unknown: the reference is not tracked any further
	effectNone                   // allowed even after the reference has ended
	effectBorrow                 // used during the call only
	effectTake                   // ownership moves to the callee
	effectFree                   // as effectTake; freeing is the callee's purpose
	effectFill                   // a container may hold references afterwards
	effectEmpty                  // a container holds no references afterwards
	effectDrop                   // a container is emptied and its views end
	effectDrain                  // some bytes are removed from a container: it may be empty afterwards
	effectSend                   // as effectTake, through a channel, by which it may be returned
	effectKeep                   // bytes, or a function that may lead to bytes, are stored beyond the call
	effectFillLeaf               // the only reference in a struct may be set afterwards, for the caller to free
	effectCall                   // passed once to the function in argument At, as its argument As
	effectCallEach               // the elements of a slice are, one by one
)

func (e effect) String() string {
	return [...]string{"unknown", "ignores", "borrows", "takes", "frees", "fills", "empties", "drops", "drains", "sends", "keeps", "fills a field", "passes on", "passes on each"}[e]
}

// when says for which result of a call an effect or result holds.
type when uint8

const (
	always   when = iota
	ifNil         // the result At, an error, is nil
	ifTrue        // the result At, a bool, is true
	ifFalse       // the result At, a bool, is false
	ifOwnNil      // the field At of the result itself, an error, is nil
)

// source says where a result comes from.
type source uint8

const (
	resultUnknown  source = iota
	resultOwned           // a reference that the caller must free
	resultSame            // the reference of argument Of, when When holds; otherwise the argument keeps it
	resultBorrowed        // a reference that the caller does not own
	resultMaybe           // a reference to free, or none, for unknown reasons
	resultView            // bytes of the argument Of
	resultLoan            // bytes of the argument Of, valid until its next method is called
	resultCleaned         // a reference that is freed when the test ends
	resultHolder          // a pointer to an empty container that the caller owns
	resultHolding         // a pointer to a container that the caller owns and must free
)

type param struct {
	Effect effect
	When   when
	At     int8 // the result to which When applies; of effectCall, an argument
	As     int8
}

type result struct {
	Source source
	When   when
	At     int8 // the result, or the field, to which When applies
	Of     int8 // an argument; the receiver is argument 0
	Inside bool // of a view: the result is not the bytes, but leads to them
	Shared bool // shares the memory of argument Of
}

// contract describes the effects of a call on references. Arguments are numbered as in package ssa: the
// receiver first. It is exported between packages as a fact.
type contract struct {
	Params  []param
	Results []result
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
func (*contract) AFact() {}

func (c *contract) String() string {
	var s []string
	for i, p := range c.Params {
		if p.Effect != effectUnknown {
			s = append(s, fmt.Sprintf("%d:%v", i, p.Effect))
		}
	}
	for i, r := range c.Results {
		if r.Source == resultOwned {
			s = append(s, fmt.Sprintf("result %d:owned", i))
		}
	}
	if c.NoReturn {
		s = append(s, "never returns")
	}
	return strings.Join(s, " ")
}

// param returns the effect on argument i; the last parameter's for variadic ones.
func (c *contract) param(i int) param {
	if c == nil || i >= len(c.Params) {
		return param{}
	}
	return c.Params[i]
}

func (c *contract) result(i int) result {
	if c == nil || i >= len(c.Results) {
		return result{}
	}
	return c.Results[i]
}

// says reports whether the contract contains anything to export.
func (c *contract) says() bool {
	if c.NoReturn || c.NilErr != 0 || c.Writes != 0 || c.NonNil || c.Recovers {
		return true
	}
	for _, p := range c.Params {
		if p.Effect != effectUnknown {
			return true
		}
	}
	for _, r := range c.Results {
		if r.Source != resultUnknown {
			return true
		}
	}
	return false
}

// arguments lists the parameters of sig as package ssa numbers them.
func arguments(sig *types.Signature) []*types.Var {
	var vars []*types.Var
	if r := sig.Recv(); r != nil {
		vars = append(vars, r)
	}
	for v := range sig.Params().Variables() {
		vars = append(vars, v)
	}
	return vars
}

// outcome is a condition on a result.
type outcome struct {
	when when
	at   int8
}

// okResult is the result of the name ok, a bool: if there is one, it says whether there is a reference, even
// if there is an error, too.
func okResult(sig *types.Signature) (at int8, ok bool) {
	for i := range sig.Results().Len() {
		if v := sig.Results().At(i); v.Name() == "ok" && code.IsBool(v.Type()) {
			return int8(i), true
		}
	}
	return 0, false
}

// outcomes lists the results of sig that distinguish success from failure: errors first, since rule 4 is
// about them.
func outcomes(sig *types.Signature) []outcome {
	var list []outcome
	for i := sig.Results().Len() - 1; i >= 0; i-- {
		if code.IsError(sig.Results().At(i).Type()) {
			list = append(list, outcome{ifNil, int8(i)})
		}
	}
	for i := sig.Results().Len() - 1; i >= 0; i-- {
		if code.IsBool(sig.Results().At(i).Type()) {
			list = append(list, outcome{ifTrue, int8(i)})
		}
	}
	return list
}
