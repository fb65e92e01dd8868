package sizing

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSolveSmall(t *testing.T) {
	h := Histogram{Sizes: counts(100, 10, 90, 1, 1000, 5, 5000, 1)}
	for _, tc := range []struct {
		k    int
		o    Options
		want []int
	}{
		{1, Options{}, []int{5000}},
		{2, Options{}, []int{1000, 5000}},
		{3, Options{}, []int{100, 1000, 5000}},
		{4, Options{}, []int{90, 100, 1000, 5000}},
		{9, Options{}, []int{90, 100, 1000, 5000}},
		{4, Options{ClassCost: 11}, []int{100, 1000, 5000}},
		{4, Options{ClassCost: 10}, []int{100, 1000, 5000}}, // the tie goes to the shorter ladder
		{4, Options{ClassCost: 9}, []int{90, 100, 1000, 5000}},
		{4, Options{MinClass: 256}, []int{256, 1000, 5000}},
		{4, Options{Align: 64}, []int{128, 1024, 5056}},
		{4, Options{MaxClass: 1000}, []int{90, 100, 1000}},
		{4, Options{MaxClass: 1000, Align: 64}, []int{128, 1000}},
		{3, Options{Forced: []int{512, 512}}, []int{512, 1000, 5000}},
		{3, Options{Forced: []int{8192}}, []int{100, 1000, 8192}},
		{2, Options{Forced: []int{95, 8192}}, []int{95, 8192}},
		{3, Options{MaxClass: 100, Forced: []int{6000}}, nil}, // nil: what brute force finds,
	} {
		got, err := SolveOptions(h, tc.k, tc.o)
		if err != nil {
			t.Fatalf("k=%d %+v: %v", tc.k, tc.o, err)
		}
		if len(tc.want) == 0 {
			tc.want = bruteForce(h.Sizes, tc.k, tc.o).ladder
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("k=%d %+v: got %v, want %v", tc.k, tc.o, got, tc.want)
		}
	}
}

func TestSolveErrors(t *testing.T) {
	one := counts(100, 1)
	many := make([]SizeCount, MaxSizes+1)
	for _, tc := range []struct {
		name string
		h    Histogram
		k    int
		o    Options
		want error
	}{
		{"nothing", Histogram{}, 4, Options{}, ErrEmpty},
		{"no counts", Histogram{Sizes: counts(5, 0)}, 4, Options{}, ErrEmpty},
		{"zero size", Histogram{Sizes: counts(0, 1)}, 4, Options{}, ErrMalformed},
		{"negative size", Histogram{Sizes: []SizeCount{{Size: -1}}}, 4, Options{}, ErrMalformed},
		{"negative period", Histogram{Every: -1, Sizes: one}, 4, Options{}, ErrMalformed},
		{"negative peak", Histogram{Peak: -1, Sizes: one}, 4, Options{}, ErrMalformed},
		{"falling classes", Histogram{Classes: []int{8, 4}, Sizes: one}, 4, Options{}, ErrMalformed},
		{"huge size", Histogram{Sizes: counts(MaxSize+1, 1)}, 4, Options{}, ErrTooLarge},
		{"many sizes", Histogram{Sizes: many}, 4, Options{}, ErrTooLarge},
		{"no classes", Histogram{Sizes: one}, 0, Options{}, ErrOptions},
		{"many classes", Histogram{Sizes: one}, MaxClasses + 1, Options{}, ErrTooLarge},
		{"negative min", Histogram{Sizes: one}, 1, Options{MinClass: -1}, ErrOptions},
		{"min above max", Histogram{Sizes: one}, 1, Options{MinClass: 9, MaxClass: 8}, ErrOptions},
		{"all above max", Histogram{Sizes: one}, 1, Options{MaxClass: 8}, ErrEmpty},
		{"forced zero", Histogram{Sizes: one}, 1, Options{Forced: []int{0}}, ErrOptions},
		{"forced too many", Histogram{Sizes: one}, 1, Options{Forced: []int{1, 2}}, ErrOptions},
		{"forced leaves no room", Histogram{Sizes: one}, 1, Options{Forced: []int{8}}, ErrOptions},
	} {
		if got, err := SolveOptions(tc.h, tc.k, tc.o); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}

// TestSolveAgainstBruteForce compares with every possible ladder of small histograms.
func TestSolveAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 4000 {
		n := 1 + rng.IntN(7)
		sizes := make([]SizeCount, n)
		for i := range sizes {
			sizes[i] = SizeCount{Size: 1 + rng.IntN(40), Count: uint64(rng.IntN(6))}
		}
		sizes[0].Count++
		var o Options
		if rng.IntN(3) == 0 {
			o.ClassCost = uint64(rng.IntN(40))
		}
		if rng.IntN(3) == 0 {
			o.MinClass = rng.IntN(20)
		}
		if rng.IntN(3) == 0 {
			o.Align = rng.IntN(9)
		}
		if rng.IntN(3) == 0 {
			o.MaxClass = max(o.MinClass, sizes[0].Size) + rng.IntN(10)
		}
		for rng.IntN(3) == 0 && len(o.Forced) < 2 {
			o.Forced = append(o.Forced, 1+rng.IntN(50))
		}
		k := 1 + rng.IntN(5)
		want := bruteForce(sizes, k, o)
		plan, err := NewPlan(Histogram{Sizes: sizes}, k, o)
		if want.ladder == nil {
			if !errors.Is(err, ErrOptions) {
				t.Fatalf("round %d: %v k=%d %+v: got %v, want ErrOptions", round, sizes, k, o, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("round %d: %v k=%d %+v: %v, want %v", round, sizes, k, o, err, want.ladder)
		}
		got := plan.Best()
		if cost := costOf(sizes, got, o); cost != want.cost {
			t.Fatalf("round %d: %v k=%d %+v: got %v costing %d, want %v costing %d", round, sizes, k, o, got, cost, want.ladder, want.cost)
		}
		for _, f := range o.Forced {
			if !slices.Contains(got, f) {
				t.Fatalf("round %d: forced %d is not in %v", round, f, got)
			}
		}
	}
}

type answer struct {
	ladder []int
	cost   uint64
}

// bruteForce tries every set of at most k of the possible classes: each size rounded as the options
// say, and each forced class.
func bruteForce(sizes []SizeCount, k int, o Options) answer {
	var candidates []int
	for _, s := range merged(sizes) {
		if c := o.class(s.Size); c > 0 {
			candidates = append(candidates, c)
		}
	}
	candidates = append(candidates, o.Forced...)
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	best := answer{cost: math.MaxUint64}
	for set := 1; set < 1<<len(candidates); set++ {
		var ladder []int
		for i, c := range candidates {
			if set>>i&1 == 1 {
				ladder = append(ladder, c)
			}
		}
		if len(ladder) > k {
			continue
		}
		valid := true
		for _, f := range o.Forced {
			valid = valid && slices.Contains(ladder, f)
		}
		for _, s := range merged(sizes) {
			wanted := o.MaxClass == 0 || s.Size <= o.MaxClass
			valid = valid && (!wanted || ladder[len(ladder)-1] >= s.Size)
		}
		if !valid {
			continue
		}
		if cost := costOf(sizes, ladder, o); cost < best.cost || cost == best.cost && len(ladder) < len(best.ladder) {
			best = answer{ladder, cost}
		}
	}
	return best
}

func costOf(sizes []SizeCount, ladder []int, o Options) uint64 {
	u, err := Measure(Histogram{Sizes: sizes}, ladder)
	if err != nil {
		panic(err)
	}
	return u.Waste() + o.ClassCost*uint64(len(ladder))
}

// TestCurveProperties: more classes never waste more, each further class saves no more than the one
// before it, the plan's figure is the ladder's, and the ladder covers all.
func TestCurveProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		sizes := randomSizes(rng, 1+rng.IntN(300))
		h := Histogram{Sizes: sizes}
		plan, err := NewPlan(h, 40, Options{})
		if err != nil {
			t.Fatal(err)
		}
		curve := plan.Curve()
		for i, p := range curve {
			u, err := Measure(h, plan.Ladder(p.Classes))
			if err != nil {
				t.Fatal(err)
			}
			if u.Oversize != 0 || u.Waste() != p.Waste {
				t.Fatalf("k=%d: the plan says %d bytes, the ladder wastes %d and leaves %d requests out", p.Classes, p.Waste, u.Waste(), u.Oversize)
			}
			if i > 0 && p.Waste > curve[i-1].Waste {
				t.Fatalf("k=%d wastes more than k=%d", p.Classes, curve[i-1].Classes)
			}
			if i > 1 && curve[i-1].Waste-p.Waste > curve[i-2].Waste-curve[i-1].Waste {
				t.Fatalf("the curve is not convex at k=%d", p.Classes)
			}
		}
		if knee := Knee(curve); knee < curve[0].Classes || knee > curve[len(curve)-1].Classes {
			t.Fatalf("a knee of %d off the curve", knee)
		}
	}
}

func TestKnee(t *testing.T) {
	var hyperbola []Point
	for k := 1; k <= 64; k++ {
		hyperbola = append(hyperbola, Point{Classes: k, Share: 1 / float64(k)})
	}
	for _, tc := range []struct {
		curve []Point
		want  int
	}{
		{nil, 0},
		{[]Point{{Classes: 3}}, 3},
		{[]Point{{Classes: 1, Share: 0.9}, {Classes: 2, Share: 0.9}}, 1},
		{[]Point{{Classes: 1, Share: 0.8}, {Classes: 2, Share: 0.1}, {Classes: 3, Share: 0.05}, {Classes: 4}}, 2},
		{hyperbola, 8},
	} {
		if got := Knee(tc.curve); got != tc.want {
			t.Errorf("knee of %d points: got %d, want %d", len(tc.curve), got, tc.want)
		}
	}
}

// TestSolveHugeCounts: sums that would overflow are scaled down, and the ladder stays a good one.
func TestSolveHugeCounts(t *testing.T) {
	h := Histogram{Sizes: counts(100, math.MaxUint64, 200, math.MaxUint64/2, MaxSize, 1, 300, 7)}
	got, err := Solve(h, 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{100, 200, MaxSize}; !slices.Equal(got, want) && !slices.Equal(got, []int{100, 300, MaxSize}) {
		t.Errorf("got %v, want about %v", got, want)
	}
}

// TestSolveLarge solves as large a histogram as the package documents; BenchmarkSolve64K measures the time.
func TestSolveLarge(t *testing.T) {
	sizes := 1 << 16
	if raceEnabled {
		sizes = 1 << 12 // the same work for each size, fewer of them
	}
	h := Histogram{Sizes: distinct(sizes)}
	ladder, err := Solve(h, 64)
	if err != nil || len(ladder) != 64 {
		t.Fatal(len(ladder), err)
	}
	if !slices.IsSorted(ladder) || ladder[63] < sizes {
		t.Errorf("%v does not cover every size", ladder)
	}
}

func BenchmarkSolve64K(b *testing.B) {
	h := Histogram{Sizes: distinct(1 << 16)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Solve(h, 64); err != nil {
			b.Fatal(err)
		}
	}
}

func distinct(n int) []SizeCount {
	rng := rand.New(rand.NewPCG(5, 6))
	sizes := make([]SizeCount, n)
	for i := range sizes {
		sizes[i] = SizeCount{Size: i + 1, Count: rng.Uint64N(1000) + 1}
	}
	return sizes
}

func randomSizes(rng *rand.Rand, n int) []SizeCount {
	sizes := make([]SizeCount, n)
	for i := range sizes {
		sizes[i] = SizeCount{Size: 1 + int(math.Exp(rng.Float64()*14)), Count: rng.Uint64N(1000) + 1}
	}
	return sizes
}

// counts makes sizes of pairs: a size and its count.
func counts(pairs ...uint64) []SizeCount {
	var sizes []SizeCount
	for i := 0; i < len(pairs); i += 2 {
		sizes = append(sizes, SizeCount{Size: int(pairs[i]), Count: pairs[i+1]})
	}
	return sizes
}
