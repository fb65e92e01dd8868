package bench

import (
	"slices"
	"testing"
)

// TestInTurn: every contestant is measured once in each round, and in as many rounds as there are contestants each is first once.
func TestInTurn(t *testing.T) {
	const n = 3
	var first []int
	for round := range n {
		order := inTurn(round, n)
		first = append(first, order[0])
		slices.Sort(order)
		if !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("round %d measures %v", round, order)
		}
	}
	slices.Sort(first)
	if !slices.Equal(first, []int{0, 1, 2}) {
		t.Errorf("the first ones are %v", first)
	}
}
