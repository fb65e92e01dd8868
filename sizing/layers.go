package sizing

import "math"

// infinite marks ladders that do not exist: more classes than candidates, or a forced class left out.
const infinite = math.MaxInt64

// solve fills the table one number of classes after another. Let W(l, j) be the least waste of l
// classes of which the largest is candidate j, over the requests up to j:
//
//	W(l, j) = min over i<j of  W(l-1, i) + class[j]·(count[j]-count[i]) - (bytes[j]-bytes[i])
//
// For a given j, everything that depends on i is a straight line in class[j]:
//
//	W(l-1, i) + bytes[i]  -  count[i]·class[j]
//
// so each W(l, j) asks for the lowest of j lines at class[j]. The lines arrive with falling slope and
// the questions with rising class[j], so a queue of the lines on the lower envelope answers all of
// them in one pass: exact, in integers, and linear in the number of candidates for each l.
func (p *Plan) solve(k int) {
	m := p.problem.len()
	p.waste = make([]int64, k+1)
	p.from = make([][]int32, k+1)
	prev, next := make([]int64, m+1), make([]int64, m+1)
	for j := range prev {
		prev[j] = infinite
	}
	prev[0] = 0 // no class, no request

	env := envelope{lines: make([]line, 0, m+1)}
	for l := 1; l <= k; l++ {
		p.from[l] = make([]int32, m+1)
		env.clear()
		next[0] = infinite
		for j := 1; j <= m; j++ {
			if p.problem.forced[j-1] {
				// A ladder that skips j-1 is not allowed from here on.
				env.clear()
			}
			if prev[j-1] < infinite {
				env.add(line{from: int32(j - 1), fall: p.problem.count[j-1], at0: prev[j-1] + p.problem.bytes[j-1]})
			}
			next[j] = infinite
			if best, ok := env.lowest(p.problem.class[j]); ok {
				x := p.problem.class[j]
				next[j] = best.at0 - best.fall*x + p.problem.count[j]*x - p.problem.bytes[j]
				p.from[l][j] = best.from
			}
		}
		p.waste[l] = next[m]
		if p.least == 0 && next[m] < infinite {
			p.least = l
		}
		prev, next = next, prev
	}
}

// line is at0 - fall·x, and the lowest of all from x = start on.
type line struct {
	at0, fall int64
	start     int64
	from      int32
}

// envelope is the lower envelope of lines added in order of rising fall, for questions in order of
// rising x. Both lines and questions only ever move on, so each line is looked at twice at most.
type envelope struct {
	lines []line
	head  int // lines before it are never lowest again
}

func (e *envelope) clear() {
	e.lines, e.head = e.lines[:0], 0
}

// add takes a line that falls at least as fast as every line before it.
func (e *envelope) add(n line) {
	for len(e.lines) > e.head {
		last := e.lines[len(e.lines)-1]
		if n.fall == last.fall && n.at0 >= last.at0 {
			return // parallel and nowhere lower
		}
		n.start = crossing(last, n)
		if n.start > last.start {
			e.lines = append(e.lines, n)
			return
		}
		e.lines = e.lines[:len(e.lines)-1]
	}
	n.start = math.MinInt64
	e.lines = append(e.lines, n)
}

// lowest returns the line that is lowest at x.
func (e *envelope) lowest(x int64) (line, bool) {
	if e.head == len(e.lines) {
		return line{}, false
	}
	for e.head+1 < len(e.lines) && e.lines[e.head+1].start <= x {
		e.head++
	}
	return e.lines[e.head], true
}

// crossing is the first whole x at which n is no higher than last. It is a division rather than a
// comparison of products, which would overflow.
func crossing(last, n line) int64 {
	rise, gain := n.at0-last.at0, n.fall-last.fall
	if rise <= 0 || gain == 0 {
		return math.MinInt64 // lower everywhere: every question is for x above zero
	}
	return (rise-1)/gain + 1
}
