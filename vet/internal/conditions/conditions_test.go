package conditions

import (
	"go/constant"
	"go/token"
	"go/types"
	"testing"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/places"
)

func number(n int64) *ssa.Const {
	return ssa.NewConst(constant.MakeInt64(n), types.Typ[types.Int])
}

// compared is a comparison of two values, which are named by terms.
func compared(table *Table, op token.Token, x, y ssa.Value, terms map[ssa.Value]*Term) (*Condition, bool) {
	return table.Test(&ssa.BinOp{Op: op, X: x, Y: y}, func(v ssa.Value) *Term {
		if t, ok := terms[v]; ok {
			return t
		}
		return table.Value(v)
	})
}

// Tests that have the same result, or the opposite one, are one condition.
func TestEqualTestsAreOneCondition(t *testing.T) {
	var table Table
	a, b, n := &ssa.Parameter{}, &ssa.Parameter{}, &ssa.Parameter{}
	null := ssa.NewConst(nil, types.NewPointer(types.Typ[types.Int]))
	terms := map[ssa.Value]*Term{n: table.Of(Length, table.Value(a))}
	type test struct {
		op       token.Token
		x, y     ssa.Value
		positive bool
	}
	for _, group := range [][]test{
		{{token.EQL, a, null, true}, {token.EQL, null, a, true}, {token.NEQ, a, null, false}, {token.NEQ, null, a, false}},
		{{token.LSS, a, b, true}, {token.GEQ, a, b, false}, {token.GTR, b, a, true}, {token.LEQ, b, a, false}},
		{{token.EQL, a, number(3), true}, {token.EQL, number(3), a, true}, {token.NEQ, number(3), a, false}},
		{
			{token.EQL, n, number(0), true}, {token.NEQ, number(0), n, false}, {token.LSS, number(0), n, false}, {token.GTR, n, number(0), false},
			{token.LEQ, n, number(0), true}, {token.LSS, n, number(1), true}, {token.GEQ, n, number(1), false}, {token.GTR, number(1), n, true},
		},
	} {
		first, _ := compared(&table, group[0].op, group[0].x, group[0].y, terms)
		for _, g := range group {
			c, positive := compared(&table, g.op, g.x, g.y, terms)
			if c != first || positive != g.positive {
				t.Errorf("%v: the same condition %v, positive %v", g.op, c == first, positive)
			}
		}
	}
	c, positive := table.Test(&ssa.UnOp{Op: token.NOT, X: &ssa.UnOp{Op: token.NOT, X: &ssa.UnOp{Op: token.NOT, X: b}}}, table.Value)
	if c != table.True(table.Value(b)) || positive {
		t.Errorf("a bool negated thrice: %v, positive %v", c, positive)
	}
	less, _ := compared(&table, token.LSS, a, b, nil)
	if more, _ := compared(&table, token.LSS, b, a, nil); more == less {
		t.Error("a < b and b < a are one condition")
	}
}

func TestTermsDependOnTheirRoots(t *testing.T) {
	var table Table
	a, b := &ssa.Parameter{}, &ssa.Parameter{}
	field := places.Of(a).With(places.Step{Kind: places.Field, N: 1})
	for _, x := range []*Term{
		table.Value(a), table.Load(field), table.Of(Length, table.Load(field)), table.Of(Converted, table.Of(Capacity, table.Value(a))),
		table.Method("Unique", table.Value(a)), table.Part(a, places.PathOf(places.Step{N: 1})),
	} {
		if x.Root() != ssa.Value(a) {
			t.Errorf("%v does not depend on a", x)
		}
		c := table.Equal(x, table.Value(b))
		if roots := c.Roots(); len(roots) != 2 || roots[0] != ssa.Value(a) || roots[1] != ssa.Value(b) {
			t.Errorf("%v depends on %v", x, roots)
		}
		now, ok := table.Rooted(c, a, b)
		if back, _ := table.Rooted(now, b, a); !ok || now == c || back != c {
			t.Errorf("%v with another root: %v, and back", x, now)
		}
		if _, ok := table.Rooted(c, b, a); ok {
			t.Errorf("%v has the root b", x)
		}
	}
	if c := table.True(table.Const(number(1))); len(c.Roots()) != 0 {
		t.Errorf("a constant depends on %v", c.Roots())
	}
	loaded := func(x *Term) bool { return x.Form == Load && x.Place.Within(places.Of(a)) }
	if c := table.Equal(table.Value(b), table.Of(Length, table.Load(field))); !c.Mentions(loaded) {
		t.Error("the length of a field does not mention the field")
	}
	if c := table.Equal(table.Value(b), table.Value(a)); c.Mentions(loaded) {
		t.Error("a pointer mentions what it leads to")
	}
}

func TestReplace(t *testing.T) {
	var table Table
	a, b, c := table.Value(&ssa.Parameter{}), table.Value(&ssa.Parameter{}), table.Value(&ssa.Parameter{})
	if now, ok := table.Replace(table.Equal(a, b), a, c); !ok || now != table.Equal(c, b) {
		t.Errorf("a == b with c for a: %v", now)
	}
	if now, ok := table.Replace(table.Equal(a, b), b, c); !ok || now != table.Equal(a, c) {
		t.Errorf("a == b with c for b: %v", now)
	}
	if _, ok := table.Replace(table.Equal(a, b), c, a); ok {
		t.Error("a == b has no c")
	}
	if _, ok := table.Replace(table.True(a), a, c); ok {
		t.Error("a bool is no comparison")
	}
}

// A value cannot be two constants, but it can be none of them.
func TestExcludes(t *testing.T) {
	var table Table
	a, b := table.Value(&ssa.Parameter{}), table.Value(&ssa.Parameter{})
	one, two := table.Equal(a, table.Int(1)), table.Equal(a, table.Int(2))
	if !one.Excludes(two) || !two.Excludes(one) {
		t.Error("a == 1 does not exclude a == 2")
	}
	for _, o := range []*Condition{nil, one, table.Equal(b, table.Int(2)), table.Equal(a, b), table.True(a)} {
		if one.Excludes(o) {
			t.Errorf("a == 1 excludes %v", o)
		}
	}
	if one.ID() == two.ID() || (*Condition)(nil).ID() >= 0 {
		t.Error("conditions share an ID")
	}
}
