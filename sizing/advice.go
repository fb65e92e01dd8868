package sizing

// Advice is what [Recommend] makes of a histogram: the ladder in force, the ladder proposed, and what
// one saves over the other.
type Advice struct {
	Now    Usage   // the ladder in force, Histogram.Classes; zero where the histogram names none
	Best   Usage   // the ladder proposed
	Ladder []int   // the ladder proposed, rising; the ladder in force where that is as good
	Keep   bool    // the ladder in force is good: it wastes little, or the one compared with it does not waste less
	Knee   int     // the number of classes beyond which returns diminish; see [Knee]
	Curve  []Point // least waste for each number of classes
	Saved  int64   // bytes saved at the recorded peak, estimated; 0 where no peak was recorded

	slight bool // Keep, because the ladder that was compared would save less than worthwhile
}

// worthwhile is how many bytes another ladder has to save at the recorded peak to be proposed without being asked for: less is
// not worth a change of a program.
const worthwhile = 64 << 10

// adviceClasses bounds how many classes are proposed without being asked for. A pool takes many more,
// but each class keeps idle slabs of its own.
const adviceClasses = 128

// cacheLine is what classes are multiples of.
const cacheLine = 64

// Recommend proposes a ladder for what h recorded: k classes, or with k zero as few, from the knee of
// the curve on, as waste no more than a twentieth of what they hand out and half of what the ladder in
// force wastes. It looks no further than 32 classes, or as many as the ladder in force has up to 128.
// It advises to keep a ladder that wastes no more than a twentieth, or 64 KiB more than the best at the
// recorded peak, while no number of classes was asked for, and one that wastes no more than the best of k
// or more classes.
//
// Classes are multiples of 64 bytes, a cache line, and cover every size, except that sizes above the
// ladder in force are left oversize while fewer than one get in ten thousand asks for them: a class for
// a rare large buffer would be idle memory. Bytes saved are the recorded peak less the part of it that the
// better ladder would have handed out, and assume that sizes are as mixed at the peak as over all.
// Errors are those of [SolveOptions].
func Recommend(h Histogram, k int) (Advice, error) {
	if err := Check(h); err != nil {
		return Advice{}, err
	}
	most := max(k, adviceClasses)
	plan, err := NewPlan(h, most, Options{MinClass: cacheLine, Align: cacheLine, MaxClass: (cover(h) + cacheLine - 1) / cacheLine * cacheLine})
	if err != nil {
		return Advice{}, err
	}
	a := Advice{Curve: plan.Curve()}
	a.Knee = Knee(a.Curve[:min(len(a.Curve), 64)])
	if a.Now, err = Measure(h, h.Classes); err != nil {
		return Advice{}, err
	}
	a.Ladder = plan.Ladder(choose(plan, a, k, h.Classes))
	if a.Best, err = Measure(h, a.Ladder); err != nil {
		return Advice{}, err
	}
	a.Saved = saved(a, h.Peak)
	a.Keep = keep(a, k, len(h.Classes))
	if !a.Keep && k == 0 && h.Peak > 0 && a.Now.Slab > 0 && a.Best.Oversize == a.Now.Oversize && a.Saved < worthwhile {
		a.Keep, a.slight = true, true
	}
	if a.Keep {
		a.Ladder, a.Best, a.Saved = h.Classes, a.Now, 0
	}
	return a, nil
}

// Verdict says in one sentence which ladder to take. It compares by one measure, the waste over what was
// recorded, unless one of the ladders pools requests that are above the largest class of the other: then
// that one is better. [Advice.Saved] and the result of a replay may differ from it.
func (a Advice) Verdict() string {
	const keep = "Keep the classes in force: "
	switch {
	case a.Now.Slab == 0:
		return "Take the classes proposed: none in force serves what was recorded."
	case a.Keep && little(a.Now.Waste(), a.Now.Requested):
		return keep + "they waste little, at most a twentieth of what is asked for."
	case a.slight:
		return keep + "others would save less than 64 KiB at the recorded peak."
	case a.Keep:
		return keep + "the classes they were compared with waste no less."
	case a.Best.Oversize < a.Now.Oversize:
		return "Take the classes proposed: they pool requests that are above the largest class in force."
	case a.Better():
		return "Take the classes proposed: they waste less."
	case a.Best.Waste() == a.Now.Waste():
		return "Either: the classes proposed waste as much as those in force."
	default:
		return keep + "those proposed waste more. Take them only if you want fewer classes."
	}
}

// Better reports whether the ladder proposed is better than the one in force: it pools more requests, or as
// many with less waste.
func (a Advice) Better() bool {
	return !a.Keep && (a.Best.Oversize < a.Now.Oversize || a.Best.Waste() < a.Now.Waste())
}

// keep reports whether the ladder in force is to stay.
func keep(a Advice, k, present int) bool {
	switch {
	case present == 0 || a.Best.Oversize < a.Now.Oversize:
		return false
	case k == 0 && little(a.Now.Waste(), a.Now.Requested):
		return true
	default:
		// A ladder of fewer classes was asked for as it is, though it may waste more.
		return (k == 0 || k >= present) && a.Best.Waste() >= a.Now.Waste()
	}
}

// little is the share of waste up to which a ladder is kept.
func little(waste, requested uint64) bool { return waste <= requested/20 }

// choose picks the number of classes.
func choose(p *Plan, a Advice, k int, present []int) int {
	if k > 0 {
		return k
	}
	if len(present) == 0 {
		return a.Knee
	}
	most := min(max(len(present), 32), adviceClasses, p.Most())
	for n := a.Knee; n < most; n++ {
		if w := p.Waste(n); w <= a.Now.Waste()/2 && little(w, a.Now.Requested) {
			return n
		}
	}
	return most
}

// cover is the largest size worth a class.
func cover(h Histogram) int {
	var total, above uint64
	for _, s := range h.Sizes {
		total = addSat(total, s.Count)
	}
	top := 0
	if len(h.Classes) > 0 {
		top = h.Classes[len(h.Classes)-1]
	}
	sizes := merged(h.Sizes)
	for i := len(sizes) - 1; i > 0 && sizes[i].Size > top; i-- {
		above = addSat(above, sizes[i].Count)
		if above > total/10000 {
			return sizes[i].Size
		}
	}
	return max(top, sizes[0].Size)
}

// saved scales the peak by how much less the proposed ladder hands out for the same requests. Some
// requests are pooled by one of the ladders only, so shares are compared, not sums.
func saved(a Advice, peak int64) int64 {
	if a.Now.Slab == 0 || a.Best.Slab == 0 {
		return 0
	}
	return int64(float64(peak) * (1 - (1-a.Now.Share())/(1-a.Best.Share())))
}
