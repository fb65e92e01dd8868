package turn

import (
	"slices"
	"testing"
)

func TestOrder(t *testing.T) {
	for env, want := range map[string][]int{"": {1, 2, 3}, "0": {1, 2, 3}, "1": {1, 2, 3}, "2": {3, 2, 1}, "3": {1, 2, 3}, "x": {1, 2, 3}} {
		t.Setenv("TARN_TURN", env)
		if got := Order(1, 2, 3); !slices.Equal(got, want) {
			t.Errorf("TARN_TURN=%q: %v, want %v", env, got, want)
		}
	}
}
