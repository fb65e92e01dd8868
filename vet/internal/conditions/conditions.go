// Package conditions names what the branches of a function test. Tests that have the same result have the same name, so that
// the second one takes the branch of the first.
package conditions

import (
	"go/token"
	"strconv"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/places"
)

// A Term is a value as conditions name it: values that the analysis finds equal are one term. Terms of one Table can be compared.
type Term struct {
	Form  Form
	Value ssa.Value    // of the form Value, and of Part
	Place places.Place // of Load
	Part  places.Path  // of Part: the result, and the field of it
	Text  string       // of Const, the constant in Go's notation; of Method, its name
	Of    *Term        // of Length, Capacity, Converted and Method: the operand
}

// Form is a form of term.
type Form uint8

const (
	Value     Form = iota // a value of the function
	Const                 // a constant
	Load                  // what is in a place
	Length                // the length of another term
	Capacity              // its capacity
	Converted             // another term, converted to another type
	Method                // the result of a method of another term, without arguments
	Part                  // a part of a value, such as a field of a call's result
)

// Root is the value on which a term depends; nil for a constant.
func (t *Term) Root() ssa.Value {
	switch t.Form {
	case Value, Part:
		return t.Value
	case Load:
		return t.Place.Root
	case Const:
		return nil
	}
	return t.Of.Root()
}

func (t *Term) isConst(text string) bool { return t.Form == Const && t.Text == text }

// mentions reports whether the term, or one of its operands, matches.
func (t *Term) mentions(match func(*Term) bool) bool {
	for ; t != nil; t = t.Of {
		if match(t) {
			return true
		}
	}
	return false
}

// Op is what a condition says of its terms.
type Op uint8

const (
	True  Op = iota // X, a bool, is true
	Nil             // X is nil
	Empty           // the length of X is 0
	Equal           // X is Y
	Less            // X is less than Y
)

// A Condition is true or false on a path. Equal conditions of one Table are one pointer.
type Condition struct {
	Op    Op
	X, Y  *Term // Y of Equal and Less
	id    int
	roots []ssa.Value
}

// ID is the number of the condition in its table, in the order in which they were made.
func (c *Condition) ID() int {
	if c == nil {
		return -1
	}
	return c.id
}

// Mentions reports whether a term of the condition, or an operand of one, matches.
func (c *Condition) Mentions(match func(*Term) bool) bool {
	return c.X.mentions(match) || c.Y.mentions(match)
}

// Roots are the values on which the condition depends.
func (c *Condition) Roots() []ssa.Value { return c.roots }

// Excludes reports whether the two cannot both be true: they say that one term is two constants.
func (c *Condition) Excludes(o *Condition) bool {
	return c != nil && o != nil && c.Op == Equal && o.Op == Equal && c.X == o.X && c.Y != o.Y && c.Y.Form == Const && o.Y.Form == Const
}

// A Table holds the terms and conditions of one function. Its zero value is empty.
type Table struct {
	terms map[Term]*Term
	all   map[test]*Condition
}

// test is what a condition says.
type test struct {
	op   Op
	x, y *Term
}

func (t *Table) term(of Term) *Term {
	known, ok := t.terms[of]
	if !ok {
		if t.terms == nil {
			t.terms = map[Term]*Term{}
		}
		made := of // so that the argument needs no memory
		known = &made
		t.terms[of] = known
	}
	return known
}

// Value is the term of a value that equals no other one.
func (t *Table) Value(v ssa.Value) *Term {
	if c, ok := v.(*ssa.Const); ok {
		return t.Const(c)
	}
	return t.term(Term{Form: Value, Value: v})
}

// Const is the term of a constant.
func (t *Table) Const(c *ssa.Const) *Term {
	switch {
	case c.IsNil():
		return t.term(Term{Form: Const, Text: "nil"})
	case c.Value == nil:
		return t.term(Term{Form: Const, Text: "zero"})
	}
	return t.term(Term{Form: Const, Text: c.Value.ExactString()})
}

// Int is the term of an integer.
func (t *Table) Int(n int) *Term { return t.term(Term{Form: Const, Text: strconv.Itoa(n)}) }

// Load is the term of what is in a place.
func (t *Table) Load(p places.Place) *Term { return t.term(Term{Form: Load, Place: p}) }

// Of is a term with one operand: its length or capacity, or its value of another type.
func (t *Table) Of(form Form, x *Term) *Term { return t.term(Term{Form: form, Of: x}) }

// Method is the result of a method of x.
func (t *Table) Method(name string, x *Term) *Term {
	return t.term(Term{Form: Method, Text: name, Of: x})
}

// Part is a part of a value.
func (t *Table) Part(v ssa.Value, path places.Path) *Term {
	return t.term(Term{Form: Part, Value: v, Part: path})
}

func (t *Table) condition(op Op, x, y *Term) *Condition {
	of := test{op, x, y}
	known, ok := t.all[of]
	if !ok {
		if t.all == nil {
			t.all = map[test]*Condition{}
		}
		known = &Condition{Op: op, X: x, Y: y, id: len(t.all)}
		for _, term := range [2]*Term{x, y} {
			if term == nil {
				continue
			}
			if v := term.Root(); v != nil {
				known.roots = append(known.roots, v)
			}
		}
		t.all[of] = known
	}
	return known
}

// True is the condition that a bool is true.
func (t *Table) True(x *Term) *Condition { return t.condition(True, x, nil) }

// Nil is the condition that a value is nil.
func (t *Table) Nil(x *Term) *Condition { return t.condition(Nil, x, nil) }

// Equal is the condition that two values are equal.
func (t *Table) Equal(x, y *Term) *Condition {
	if x.Form == Const {
		x, y = y, x
	}
	switch {
	case y.isConst("nil"):
		return t.Nil(x)
	case y.isConst("0") && x.Form == Length:
		return t.condition(Empty, x.Of, nil)
	}
	return t.condition(Equal, x, y)
}

// less is the condition of x being less than y, and whether that holds if the condition does, or if it does not.
func (t *Table) less(x, y *Term) (c *Condition, positive bool) {
	switch {
	case x.isConst("0") && y.Form == Length:
		return t.condition(Empty, y.Of, nil), false
	case y.isConst("1") && x.Form == Length:
		return t.condition(Empty, x.Of, nil), true
	}
	return t.condition(Less, x, y), true
}

// Test is the condition that a bool tests, and whether the bool is true when that holds, or when it does not. term gives the
// terms of values.
func (t *Table) Test(v ssa.Value, term func(ssa.Value) *Term) (c *Condition, positive bool) {
	positive = true
	for {
		not, ok := v.(*ssa.UnOp)
		if !ok || not.Op != token.NOT {
			break
		}
		v, positive = not.X, !positive
	}
	op, ok := v.(*ssa.BinOp)
	if !ok {
		return t.True(term(v)), positive
	}
	switch op.Op {
	case token.EQL, token.NEQ:
		return t.Equal(term(op.X), term(op.Y)), positive == (op.Op == token.EQL)
	case token.LSS, token.GEQ:
		c, is := t.less(term(op.X), term(op.Y))
		return c, is == (positive == (op.Op == token.LSS))
	case token.GTR, token.LEQ:
		c, is := t.less(term(op.Y), term(op.X))
		return c, is == (positive == (op.Op == token.GTR))
	}
	return t.True(term(v)), positive
}

// Replace is a comparison with another term in place of X or Y; ok is false if neither is from, and for other conditions.
func (t *Table) Replace(c *Condition, from, to *Term) (now *Condition, ok bool) {
	x, y := c.X, c.Y
	switch from {
	case x:
		x = to
	case y:
		y = to
	default:
		return nil, false
	}
	switch c.Op {
	case Equal:
		return t.Equal(x, y), true
	case Less:
		return t.condition(Less, x, y), true
	}
	return nil, false
}

// Rooted is the condition with another value in place of the one on which X depends; ok is false if that is not from.
func (t *Table) Rooted(c *Condition, from, to ssa.Value) (now *Condition, ok bool) {
	if c.X.Root() != from {
		return nil, false
	}
	return t.condition(c.Op, t.rooted(c.X, to), c.Y), true
}

func (t *Table) rooted(x *Term, to ssa.Value) *Term {
	now := *x
	switch x.Form {
	case Value, Part:
		now.Value = to
	case Load:
		now.Place.Root = to
	case Const:
	default:
		now.Of = t.rooted(x.Of, to)
	}
	return t.term(now)
}
