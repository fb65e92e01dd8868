package sizing

import (
	"math"
	"math/bits"
	"sort"
)

// Usage is the result of serving a histogram's requests with a ladder. Byte totals count every recorded
// request once and stop at the largest uint64 rather than wrapping round.
type Usage struct {
	Gets      uint64 // requests recorded
	Requested uint64 // bytes asked for, oversize requests left out
	Slab      uint64 // bytes of the classes that served them
	Oversize  uint64 // requests above the largest class, which a pool never keeps
}

// Waste is Slab-Requested: bytes handed out and not requested.
func (u Usage) Waste() uint64 { return u.Slab - u.Requested }

// Share is the part of the slab bytes that is waste, between 0 and 1; 0 when nothing was pooled.
func (u Usage) Share() float64 {
	if u.Slab == 0 {
		return 0
	}
	return float64(u.Waste()) / float64(u.Slab)
}

// Measure computes the Usage of ladder for h. The ladder must rise; an empty one makes every request
// oversize. Errors are those of [Check], and ErrMalformed for a ladder that does not rise.
func Measure(h Histogram, ladder []int) (Usage, error) {
	if err := Check(h); err != nil {
		return Usage{}, err
	}
	if err := checkLadder(ladder); err != nil {
		return Usage{}, err
	}
	var u Usage
	for _, s := range h.Sizes {
		u.Gets = addSat(u.Gets, s.Count)
		i := sort.SearchInts(ladder, s.Size)
		if i == len(ladder) {
			u.Oversize = addSat(u.Oversize, s.Count)
			continue
		}
		u.Requested = addSat(u.Requested, requested(s))
		u.Slab = addSat(u.Slab, mulSat(s.Count, uint64(ladder[i])))
	}
	return u, nil
}

// addSat and mulSat stop at the largest value: the totals of a service that ran for years must not wrap
// to small ones.
func addSat(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

func mulSat(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return math.MaxUint64
	}
	return lo
}
