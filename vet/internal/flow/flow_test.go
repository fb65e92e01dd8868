package flow

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
)

const source = `package p

func both(a, b bool) (n int) {
	if a {
		n++
	}
	if b {
		n += 2
	}
	return n
}

func loop(n int) {
	for range n {
		println(n)
	}
}
`

// The number behind a line is that of its branches.
const conditional = `package p

func tested(
	param, other bool,
	n int,
	f func(bool) bool,
) int {
	if param { // 1
		return 1
	}
	sum := n > 3
	got := f(true)
	if sum { // 1
		n++
	}
	if !got { // 1
		n += 2
	}
	got = f(sum)
	if (got) { // 1
		return 3
	}
	both := other && // 1
		n == 4 && // 1
		f(false)
	switch {
	case n > 2: // 1
		if both { // 1
			return 4
		}
	default:
		if both { // 1
			return 5
		}
	}
	switch {
	case f(true): // 1
		return 6
	case both: // 1
		return 7
	}
	again := false
	for ; !again; again = f(true) { // 1
		n++
	}
	g := func() bool { return again }
	if again && // 1
		sum { // 1
		return 8
	}
	if again { // 1
		return 9
	}
	if g() { // 1
		return 10
	}
	return n
}
`

func function(t *testing.T, name string) *ssa.Function {
	t.Helper()
	return built(t, source, name)
}

// built is a function of a package.
func built(t *testing.T, source, name string) *ssa.Function {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, _, err := ssautil.BuildPackage(&types.Config{Importer: importer.Default()}, fset, types.NewPackage("p", ""), []*ast.File{file}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pkg.Func(name)
}

// taken is a state that knows the decisions which matter to its key.
type taken struct{ text string }

// merged is the key by which all states are equal; separate is the key by which none are.
func merged(taken) string     { return "" }
func separate(s taken) string { return s.text }

// paths follows a function and returns the decisions at its returns.
func paths(fn *ssa.Function, visits, states int, key func(taken) string) (ends []string, whole bool) {
	return pathsOf(0, fn, visits, states, key)
}

// pathsOf is paths with states of a size.
func pathsOf(size int, fn *ssa.Function, visits, states int, key func(taken) string) (ends []string, whole bool) {
	search := Search[taken]{
		Visits: visits, States: states,
		Prune: func(*ssa.BasicBlock, taken) {},
		Key:   key,
		Size:  func(taken) int { return size },
		Run: func(b *ssa.BasicBlock, s taken, next func(*ssa.BasicBlock, taken)) {
			if len(b.Succs) == 0 {
				ends = append(ends, s.text)
			}
			for i, succ := range slices.Backward(b.Succs) {
				if len(b.Succs) == 1 {
					next(succ, s)
					continue
				}
				next(succ, taken{s.text + strconv.Itoa(i)})
			}
		},
	}
	whole = search.From(fn, taken{})
	return ends, whole
}

func TestEachStateIsFollowedOnce(t *testing.T) {
	fn := function(t, "both")
	if ends, whole := paths(fn, 1000, 1000, separate); !slices.Equal(ends, []string{"00", "01", "10", "11"}) || !whole {
		t.Errorf("ends %q, all %v", ends, whole)
	}
	if ends, whole := paths(fn, 1000, 1000, merged); len(ends) != 1 || !whole {
		t.Errorf("merged: ends %q, all %v", ends, whole)
	}
	if ends, whole := paths(fn, 1000, 1, separate); len(ends) != 1 || whole {
		t.Errorf("with one state a block: ends %q, all %v", ends, whole)
	}
	loop := function(t, "loop")
	if ends, whole := paths(loop, 50, 1000, separate); whole {
		t.Errorf("a loop whose states never repeat: ends %d, all %v", len(ends), whole)
	}
	if ends, whole := paths(loop, 50, 1000, merged); len(ends) != 1 || !whole {
		t.Errorf("a loop whose states repeat: ends %d, all %v", len(ends), whole)
	}
}

// A function whose states are large is followed on fewer paths: each takes longer.
func TestLargeStatesCountAsSeveral(t *testing.T) {
	fn := function(t, "both")
	small, whole := pathsOf(usualSize/2, fn, 20, 1000, separate)
	if !whole {
		t.Error("small states: not all paths are followed")
	}
	if large, whole := pathsOf(20*usualSize, fn, 20, 1000, separate); whole || len(large) >= len(small) {
		t.Errorf("large states: %d of %d paths, all %v", len(large), len(small), whole)
	}
}

func TestStatesAreSeparate(t *testing.T) {
	v := &ssa.Parameter{}
	var numbers code.Numbers
	key := func(s *State[string]) string {
		return s.Key(numbers.Of, func(b string) string { return "=" + b }, nil)
	}
	s := NewState[string]()
	s.Vals[Of(v)] = "a"
	s.Mem[places.Of(v)] = "a"
	s.Push(Deferred[string]{Call: &ssa.Defer{}, Args: []string{"a", "b"}})
	before := key(&s)
	other := s.Clone()
	if key(&other) != before {
		t.Errorf("the copy is %s, not %s", key(&other), before)
	}
	other.Change(func(b string) (string, bool) { return strings.ToUpper(b), b == "a" })
	other.Push(Deferred[string]{Call: &ssa.Defer{}})
	all := slices.Sorted(s.All())
	if !slices.Equal(all, []string{"a", "a", "a", "b"}) || key(&s) != before {
		t.Errorf("the first state changed with its copy: %q", all)
	}
	if all := slices.Sorted(other.All()); !slices.Equal(all, []string{"A", "A", "A", "b"}) {
		t.Errorf("the copy has %q", all)
	}
	if other.Remove(func(p places.Place) bool { return p == places.Of(v) }); len(other.Mem) != 0 || len(s.Mem) != 1 {
		t.Errorf("%d places in the copy, %d in the state", len(other.Mem), len(s.Mem))
	}
	for want := 2; ; want-- {
		if _, ok := other.Pop(); !ok {
			if want != 0 {
				t.Errorf("%d deferred calls are left", want)
			}
			break
		}
	}
}

func TestTrail(t *testing.T) {
	a, b := &ssa.If{}, &ssa.If{}
	var none *Trail
	one := none.Then(Decision{a, true})
	left, right := one.Then(Decision{b, true}), one.Then(Decision{b, false})
	for _, trail := range []*Trail{left, right} {
		steps := trail.Steps()
		if len(steps) != 2 || steps[0].Branch != a || steps[1] != trail {
			t.Errorf("steps %v", steps)
		}
	}
	if len(none.Steps()) != 0 {
		t.Error("an empty trail has decisions")
	}
}

// TestPositions: the position of a branch is in the line that tests its condition, also when the condition is a variable.
func TestPositions(t *testing.T) {
	lines := strings.Split(conditional, "\n")
	fn := built(t, conditional, "tested")
	found := map[int]int{}
	var positions Positions
	for _, b := range fn.Blocks {
		if branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If); ok {
			line := fn.Prog.Fset.Position(positions.Of(branch)).Line
			found[line]++
		}
	}
	for i, text := range lines {
		_, want, _ := strings.Cut(text, "// ")
		if n, _ := strconv.Atoi(want); found[i+1] != n {
			t.Errorf("%d branches at line %d: %s", found[i+1], i+1, text)
		}
	}
}
