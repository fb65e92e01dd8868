package bench

import (
	"fmt"
	"time"
)

// plan is how long and how often to measure.
type plan struct {
	opRounds     int           // turns of each contestant of the core section
	opTurn       time.Duration // length of such a turn
	loadRounds   int           // turns of each contestant that makes requests
	uploadRounds int           // turns of each contestant that uploads
	loadTurn     time.Duration // length of such a turn
	warmUp       time.Duration // requests before the first turn that counts
	callers      int           // concurrent callers
	allCases     bool          // all sizes, not one of them
}

func fullPlan() plan {
	return plan{
		opRounds: 11, opTurn: 25 * time.Millisecond,
		loadRounds: 7, loadTurn: 280 * time.Millisecond, warmUp: 150 * time.Millisecond,
		uploadRounds: 12,
		callers:      8, allCases: true,
	}
}

func shortPlan() plan {
	return plan{
		opRounds: 3, opTurn: 5 * time.Millisecond,
		loadRounds: 3, loadTurn: 100 * time.Millisecond, warmUp: 50 * time.Millisecond,
		uploadRounds: 3,
		callers:      8,
	}
}

func (p plan) String() string {
	return fmt.Sprintf("Contestants take turns; medians of %d turns of %v (core) and %d turns of %v with %d callers (traffic)",
		p.opRounds, p.opTurn, p.loadRounds, p.loadTurn, p.callers)
}

// inTurn returns the numbers 0 to n-1 in the order in which n contestants are measured in a round. Each round begins with another
// contestant, so that a drift of the machine within the rounds does not always meet the same ones.
func inTurn(round, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (round + i) % n
	}
	return order
}

// some returns all of sizes, or the middle one where the plan is a quick look.
func (p plan) some(sizes []int) []int {
	if p.allCases {
		return sizes
	}
	return sizes[len(sizes)/2 : len(sizes)/2+1]
}

// sizeName formats a number of bytes with a unit, such as "16 KiB".
func sizeName(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d B", n)
	}
}
