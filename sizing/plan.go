package sizing

import "fmt"

// Solve returns the ladder of at most k classes, in rising order, that wastes the fewest bytes over
// the requests recorded in h. Every recorded size is covered, and fewer than k classes come back only
// where h has fewer than k sizes: then nothing is wasted at all.
//
// The result is exact. It takes time and memory proportional to k times the number of distinct sizes:
// 64 classes over 65,536 sizes take about a tenth of a second and 16 MiB. Errors match ErrEmpty,
// ErrMalformed, ErrTooLarge or ErrOptions.
func Solve(h Histogram, k int) ([]int, error) {
	return SolveOptions(h, k, Options{})
}

// SolveOptions is [Solve] within o.
func SolveOptions(h Histogram, k int, o Options) ([]int, error) {
	p, err := NewPlan(h, k, o)
	if err != nil {
		return nil, err
	}
	return p.Best(), nil
}

// Plan holds the best ladders of every number of classes up to k, all found in one run. It is
// immutable and safe for concurrent use, and it keeps four bytes for each distinct size and class.
type Plan struct {
	problem problem
	least   int       // the fewest classes that satisfy the options
	waste   []int64   // waste[l]: the least waste of exactly l classes, in scaled counts
	from    [][]int32 // from[l][j]: the class below j in the best ladder of l classes ending at j
}

// NewPlan solves h for 1 to k classes within o. Errors are those of [SolveOptions].
func NewPlan(h Histogram, k int, o Options) (*Plan, error) {
	if err := Check(h); err != nil {
		return nil, err
	}
	if err := o.check(k); err != nil {
		return nil, err
	}
	pr, err := newProblem(merged(h.Sizes), o)
	if err != nil {
		return nil, err
	}
	m := pr.len()
	k = min(k, m)
	if k*(m+1) > maxTable {
		return nil, fmt.Errorf("%w: %d classes over %d sizes", ErrTooLarge, k, m)
	}
	p := &Plan{problem: pr}
	p.solve(k)
	if p.least == 0 {
		return nil, fmt.Errorf("%w: %d classes cannot hold the forced ones and cover the largest size", ErrOptions, k)
	}
	return p, nil
}

// Least is the fewest classes the options allow: 1, or more where classes are forced.
func (p *Plan) Least() int { return p.least }

// Most is the largest number of classes solved for: k, or the number of distinct sizes if that is less.
func (p *Plan) Most() int { return len(p.waste) - 1 }

// Ladder returns the best ladder of k classes, in rising order, freshly allocated. A k outside
// [Least, Most] is brought into it.
func (p *Plan) Ladder(k int) []int {
	k = min(max(k, p.least), p.Most())
	ladder := make([]int, k)
	j := p.problem.len()
	for l := k; l > 0; l-- {
		ladder[l-1] = int(p.problem.class[j])
		j = int(p.from[l][j])
	}
	return ladder
}

// Waste returns the bytes the best ladder of k classes wastes over the recording, which no other
// ladder of k classes within the options can undercut. Where the recording is so large that its sums
// would pass 2^61 bytes, counts were scaled down first and the figure is rounded to the same scale.
func (p *Plan) Waste(k int) uint64 {
	k = min(max(k, p.least), p.Most())
	return mulSat(uint64(p.waste[k]), 1<<p.problem.shift)
}

// Best returns the ladder with the least waste plus cost: the one of Most classes where classes are
// free, and a shorter one where further classes save less than Options.ClassCost.
func (p *Plan) Best() []int {
	best, least := p.least, p.waste[p.least]+p.problem.cost*int64(p.least)
	for k := p.least + 1; k <= p.Most(); k++ {
		if w := p.waste[k] + p.problem.cost*int64(k); w < least {
			best, least = k, w
		}
	}
	return p.Ladder(best)
}

// Point is one point of the curve of waste against the number of classes.
type Point struct {
	Classes int     `json:"classes"`
	Waste   uint64  `json:"waste"` // bytes over the recording
	Share   float64 `json:"share"` // of the slab bytes, between 0 and 1
}

// Curve returns the waste of the best ladder for each number of classes from Least to Most.
func (p *Plan) Curve() []Point {
	points := make([]Point, 0, p.Most())
	requested := p.problem.bytes[p.problem.len()]
	for k := p.least; k <= p.Most(); k++ {
		pt := Point{Classes: k, Waste: p.Waste(k)}
		if slab := requested + p.waste[k]; slab > 0 {
			pt.Share = float64(p.waste[k]) / float64(slab)
		}
		points = append(points, pt)
	}
	return points
}

// Curve returns the waste of the best ladder of 1 to k classes over h. See [Knee].
func Curve(h Histogram, k int) ([]Point, error) {
	p, err := NewPlan(h, k, Options{})
	if err != nil {
		return nil, err
	}
	return p.Curve(), nil
}

// Knee returns the number of classes beyond which returns diminish: the point of the curve of
// shares farthest below the straight line between its ends (the "kneedle" rule for a falling convex curve;
// Satopää et al., Finding a "Kneedle" in a Haystack, 2011). A curve of two points or fewer has its knee
// at an end; an empty one at 0.
func Knee(curve []Point) int {
	if len(curve) == 0 {
		return 0
	}
	first, last := curve[0], curve[len(curve)-1]
	knee, depth := last.Classes, 0.0
	width, height := float64(last.Classes-first.Classes), first.Share-last.Share
	if width == 0 || height <= 0 {
		return first.Classes
	}
	for _, p := range curve {
		x := float64(p.Classes-first.Classes) / width
		y := (p.Share - last.Share) / height
		if below := 1 - x - y; below > depth {
			knee, depth = p.Classes, below
		}
	}
	return knee
}
