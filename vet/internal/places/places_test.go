package places

import (
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"testing"

	"golang.org/x/tools/go/ssa"
)

func TestPathsAreTheirSteps(t *testing.T) {
	steps := []Step{{Kind: Field, N: 3}, {Kind: Pointer}, {Kind: Element, N: 1 << 40}, {Kind: Indexed, N: 200}, {Kind: Element, Key: `"a.b[*"`}, {Kind: Field, N: -1}}
	p := PathOf(steps...)
	if got := p.Steps(); !slices.Equal(got, steps) {
		t.Errorf("got %v, want %v", got, steps)
	}
	if got, want := p.String(), `.3*[1099511627776][v200]["a.b[*"].-1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for n := range steps {
		begin, end := PathOf(steps[:n]...), PathOf(steps[n:]...)
		if !p.Within(begin) || p.After(begin) != end || begin.Join(end) != p {
			t.Errorf("%v is %v and %v", p, begin, end)
		}
		if n > 0 && begin.Within(p) {
			t.Errorf("%v is within %v", begin, p)
		}
	}
	for n, q := len(steps), p; ; n-- {
		up, last, ok := q.Up()
		if !ok {
			if n != 0 || q != (Path{}) {
				t.Errorf("%v has no end, and %d steps are left", q, n)
			}
			break
		}
		if last != steps[n-1] {
			t.Errorf("step %d is %v, want %v", n-1, last, steps[n-1])
		}
		q = up
	}
}

// A step is not the beginning of another one.
func TestWithinComparesWholeSteps(t *testing.T) {
	for _, n := range []int64{1, 12, 63, 64, 100, 8191, 8192} {
		for _, m := range []int64{1, 12, 63, 64, 100, 8191, 8192} {
			p, q := PathOf(Step{Kind: Field, N: n}, Step{Kind: Pointer}), PathOf(Step{Kind: Field, N: m})
			if p.Within(q) != (n == m) {
				t.Errorf("%v within %v: %v", p, q, p.Within(q))
			}
		}
	}
	long, short := PathOf(Step{Kind: Element, Key: `"ab"`}), PathOf(Step{Kind: Element, Key: `"a`})
	if long.Within(short) {
		t.Errorf("%v is within %v", long, short)
	}
}

// root is a variable of the type struct{ next *T; list []struct{ n int }; byName map[string]int; pair [2]int }.
func root() (*ssa.Alloc, *types.Named) {
	named := types.NewNamed(types.NewTypeName(token.NoPos, nil, "T", nil), nil, nil)
	number := types.Typ[types.Int]
	field := func(name string, typ types.Type) *types.Var {
		return types.NewField(token.NoPos, nil, name, typ, false)
	}
	elem := types.NewStruct([]*types.Var{field("n", number)}, nil)
	named.SetUnderlying(types.NewStruct([]*types.Var{
		field("next", types.NewPointer(named)),
		field("list", types.NewSlice(elem)),
		field("byName", types.NewMap(types.Typ[types.String], number)),
		field("pair", types.NewArray(number, 2)),
	}, nil))
	return &ssa.Alloc{Comment: "t"}, named
}

// value is a value of a type, to be the root of places.
type value struct {
	ssa.Value
	typ types.Type
}

func (v value) Type() types.Type { return v.typ }

func TestNamesAndTypes(t *testing.T) {
	_, named := root()
	v := value{typ: types.NewPointer(named)}
	index := func(n int64) string { return map[int64]string{7: "i"}[n] }
	for _, c := range []struct {
		path       Path
		text, kind string
	}{
		{Path{}, "t", "T"},
		{PathOf(Step{Kind: Field, N: 0}), "t.next", "*T"},
		{PathOf(Step{Kind: Field, N: 0}, Step{Kind: Pointer}, Step{Kind: Field, N: 3}, Step{Kind: Element, N: 1}), "t.next.pair[1]", "int"},
		{PathOf(Step{Kind: Field, N: 1}, Step{Kind: Pointer}, Step{Kind: Indexed, N: 7}, Step{Kind: Field, N: 0}), "t.list[i].n", "int"},
		{PathOf(Step{Kind: Field, N: 2}, Step{Kind: Pointer}, Step{Kind: Element, Key: `"a.b"`}), `t.byName["a.b"]`, "int"},
		{PathOf(Step{Kind: Field, N: 9}), "t", "invalid type"},
		{PathOf(Step{Kind: Field, N: -1}), "t", "invalid type"},
		{PathOf(Step{Kind: Field, N: 3}, Step{Kind: Pointer}), "t.pair", "invalid type"},
	} {
		p := Place{v, c.path}
		if got := p.Text("t", index); got != c.text {
			t.Errorf("%v: got %s, want %s", c.path, got, c.text)
		}
		if got := types.TypeString(p.Type(), nil); got != c.kind {
			t.Errorf("%v: got type %s, want %s", c.path, got, c.kind)
		}
	}
}

func TestWhereAPlaceIs(t *testing.T) {
	a, _ := root()
	other := &ssa.Parameter{}
	field, element, indexed, pointer := Step{Kind: Field, N: 1}, Step{Kind: Element, N: 1}, Step{Kind: Indexed, N: 1}, Step{Kind: Pointer}
	for _, c := range []struct {
		p                              Place
		local, element, in, isConstant bool
	}{
		{Of(a), true, false, false, false},
		{Of(other), false, false, false, false},
		{Of(a).With(field), true, false, false, false},
		{Of(a).With(field).With(element), true, true, true, true},
		{Of(a).With(element).With(field), true, false, true, false},
		{Of(a).With(indexed), false, true, true, false},
		{Of(a).With(indexed).With(element), false, true, true, false},
		{Of(a).With(field).With(pointer), false, false, false, false},
		{Of(other).With(pointer).With(element), false, true, true, true},
	} {
		if c.p.Local() != c.local || c.p.IsElement() != c.element || c.p.InElement() != c.in || c.p.IsConstantElement() != c.isConstant {
			t.Errorf("%v: local %v, element %v, in one %v, constant %v", c.p.Path, c.p.Local(), c.p.IsElement(), c.p.InElement(), c.p.IsConstantElement())
		}
	}
	if Of(a).Within(Of(other)) || !Of(a).With(field).Within(Of(a)) || Of(a).Within(Of(a).With(field)) {
		t.Error("a part is within its whole")
	}
	var around []string
	for p := range Of(a).With(field).With(pointer).With(element).With(field).Around() {
		around = append(around, p.Path.String())
	}
	if want := []string{".1*[1]", ".1*"}; !slices.Equal(around, want) {
		t.Errorf("around it are %q, want %q", around, want)
	}
}

func TestIndex(t *testing.T) {
	number := func(ssa.Value) int { return 5 }
	for _, c := range []struct {
		v    ssa.Value
		want Step
	}{
		{ssa.NewConst(constant.MakeInt64(3), types.Typ[types.Int]), Step{Kind: Element, N: 3}},
		{ssa.NewConst(constant.MakeString("3"), types.Typ[types.String]), Step{Kind: Element, Key: `"3"`}},
		{ssa.NewConst(nil, types.NewPointer(types.Typ[types.Int])), Step{Kind: Indexed, N: 5}},
		{&ssa.Parameter{}, Step{Kind: Indexed, N: 5}},
	} {
		if got := Index(c.v, number); got != c.want {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}
