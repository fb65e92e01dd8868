package sizing

import (
	"fmt"
	"math/bits"
	"sort"
)

// sumBits bounds every sum of the solver: below 1<<sumBits, no difference or sum of two overflows.
const sumBits = 61

// problem is a histogram seen by the solver: the candidates for classes in rising order, and prefix
// sums over the requests each would take if all candidates were classes. Index 0 stands for "no class
// yet", so class[0] is 0 and candidates are 1..len().
//
// Only such candidates need looking at: lowering a class that is none of them to the next candidate
// below loses no request and wastes less.
type problem struct {
	class  []int64
	count  []int64 // count[j]: requests served by candidates 1..j
	bytes  []int64 // bytes[j]: the bytes those requests asked for
	forced []bool
	cost   int64
	shift  uint // counts and cost were divided by 1<<shift to keep sums in range
}

func (p *problem) len() int { return len(p.class) - 1 }

// newProblem takes sizes in rising order, each once, each with a count.
func newProblem(sizes []SizeCount, o Options) (problem, error) {
	forced := o.forced()
	p := problem{
		class:  make([]int64, 1, len(sizes)+len(forced)+1),
		count:  make([]int64, 1, len(sizes)+len(forced)+1),
		bytes:  make([]int64, 1, len(sizes)+len(forced)+1),
		forced: make([]bool, 1, len(sizes)+len(forced)+1),
	}
	p.shift = scale(sizes, forced, o)
	p.cost = int64(scaled(o.ClassCost, p.shift))

	next := 0 // the first forced class not yet passed
	for _, s := range sizes {
		for next < len(forced) && forced[next] < s.Size {
			p.force(forced[next])
			next++
		}
		c := o.class(s.Size)
		if next < len(forced) && (c == 0 || forced[next] < c) {
			// This request goes to the forced class, which is smaller than its own or the only one.
			c = forced[next]
		}
		if c > 0 {
			count := scaled(s.Count, p.shift)
			p.add(c, int64(count), int64(requestedOf(s, count)))
		}
	}
	for _, f := range forced[next:] {
		p.force(f)
	}
	if p.len() == 0 {
		return p, fmt.Errorf("%w: no request within the largest class %d", ErrEmpty, o.MaxClass)
	}
	for _, f := range forced {
		i := sort.Search(len(p.class), func(i int) bool { return p.class[i] >= int64(f) })
		p.forced[i] = true
	}
	return p, nil
}

// force makes sure that f is a candidate although no request may want it.
func (p *problem) force(f int) { p.add(f, 0, 0) }

// add puts count requests of together so many bytes on candidate c, which is not below the last one.
func (p *problem) add(c int, count, bytes int64) {
	j := p.len()
	if p.class[j] != int64(c) {
		p.class = append(p.class, int64(c))
		p.count = append(p.count, p.count[j])
		p.bytes = append(p.bytes, p.bytes[j])
		p.forced = append(p.forced, false)
		j++
	}
	p.count[j] += count
	p.bytes[j] += bytes
}

// scale returns by how many bits counts must shrink so that the largest product the solver forms
// (the largest class times all requests) and the largest cost stay below 1<<sumBits.
func scale(sizes []SizeCount, forced []int, o Options) uint {
	var total uint64
	largest := 1
	for _, s := range sizes {
		total = addSat(total, s.Count)
		largest = max(largest, o.class(s.Size))
	}
	if len(forced) > 0 {
		largest = max(largest, forced[len(forced)-1])
	}
	// Shrinking rounds each count up to at least one, which may add one for each size.
	total = addSat(total, uint64(len(sizes)))
	need := max(bits.Len64(total)+bits.Len64(uint64(largest)), bits.Len64(o.ClassCost)+bits.Len(MaxClasses))
	if need <= sumBits {
		return 0
	}
	return uint(need - sumBits)
}

// scaled divides by 1<<shift, to the nearest, and never turns a value above zero into zero.
func scaled(v uint64, shift uint) uint64 {
	if shift == 0 || v == 0 {
		return v
	}
	return max(v>>shift+v>>(shift-1)&1, 1)
}
