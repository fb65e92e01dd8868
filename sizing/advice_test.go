package sizing

import (
	"errors"
	"slices"
	"testing"
)

func TestRecommend(t *testing.T) {
	h := Histogram{
		Peak:    1 << 20,
		Classes: []int{1024, 2048, 4096},
		Sizes:   counts(1100, 1000, 3000, 500, 500, 20, 4000, 1, 9000, 1),
	}
	a, err := Recommend(h, 0)
	if err != nil {
		t.Fatal(err)
	}
	if a.Keep || a.Best.Waste() > a.Now.Waste()/2 {
		t.Errorf("waste falls only from %d to %d with %v", a.Now.Waste(), a.Best.Waste(), a.Ladder)
	}
	if a.Saved <= 0 || a.Saved >= h.Peak {
		t.Errorf("saves %d of %d bytes", a.Saved, h.Peak)
	}
	for _, c := range a.Ladder {
		if c%64 != 0 {
			t.Errorf("class %d is no multiple of 64", c)
		}
	}
	if a, err := Recommend(h, 2); err != nil || len(a.Ladder) != 2 {
		t.Errorf("two classes: %v, %v", a.Ladder, err)
	}
	h.Classes = []int{512, 1152, 3008, 4032, 9024}
	if a, err := Recommend(h, 5); err != nil || !a.Keep || !slices.Equal(a.Ladder, h.Classes) || a.Saved != 0 {
		t.Errorf("the best ladder is to be kept: %+v, %v", a, err)
	}
	if _, err := Recommend(Histogram{}, 0); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing recorded: %v", err)
	}
}

// A program is not to be changed for a few bytes, unless its owner asks for a number of classes.
func TestRecommendSlight(t *testing.T) {
	h := Histogram{Classes: []int{2048, 4096, 16384}, Sizes: counts(1100, 1000, 3000, 500, 9000, 500)}
	const verdict = "Keep the classes in force: others would save less than 64 KiB at the recorded peak."
	for _, c := range []struct {
		peak int64
		k    int
		keep bool
	}{{1000, 0, true}, {100 << 10, 0, true}, {1000, 3, false}, {0, 0, false}, {10 << 20, 0, false}} {
		h.Peak = c.peak
		a, err := Recommend(h, c.k)
		if err != nil {
			t.Fatal(err)
		}
		if a.Keep != c.keep || (a.Verdict() == verdict) != c.keep || a.Better() == c.keep {
			t.Errorf("peak %d, k=%d: keep %v, %q, saves %d", c.peak, c.k, a.Keep, a.Verdict(), a.Saved)
		}
		if a.Keep && (a.Saved != 0 || !slices.Equal(a.Ladder, h.Classes)) {
			t.Errorf("peak %d: saves %d with %v", c.peak, a.Saved, a.Ladder)
		}
	}
}

// TestRecommendOversize: one oversized get in a million gets no class; a share of them does.
func TestRecommendOversize(t *testing.T) {
	h := Histogram{Classes: []int{4096}, Sizes: counts(1000, 1000000, 4000, 1000000, 1<<28, 1)}
	a, err := Recommend(h, 0)
	if err != nil || a.Ladder[len(a.Ladder)-1] > 4096 || a.Best.Oversize != 1 {
		t.Errorf("a rare large size: %v, %v", a.Ladder, err)
	}
	h.Sizes[2].Count = 10000
	a, err = Recommend(h, 0)
	if err != nil || a.Ladder[len(a.Ladder)-1] != 1<<28 || a.Best.Oversize != 0 {
		t.Errorf("a frequent large size: %v, %v", a.Ladder, err)
	}
	h.Classes = nil
	if a, err := Recommend(h, 0); err != nil || a.Now.Oversize != a.Now.Gets || len(a.Ladder) == 0 {
		t.Errorf("no ladder in force: %+v, %v", a, err)
	}
}

func TestVerdict(t *testing.T) {
	sizes := counts(1100, 1000, 3000, 500, 9000, 500)
	for _, tc := range []struct {
		name    string
		classes []int
		k       int
		want    string
		better  bool
	}{
		{"less waste", []int{2048, 4096, 16384}, 3, "Take the classes proposed: they waste less.", true},
		{"more requests pooled, and more waste", []int{1152, 3008}, 1, "Take the classes proposed: they pool requests that are above the largest class in force.", true},
		{"no classes", nil, 0, "Take the classes proposed: none in force serves what was recorded.", true},
		{"no class is large enough", []int{64}, 0, "Take the classes proposed: none in force serves what was recorded.", true},
		{"little waste", []int{1152, 3008, 9088}, 0, "Keep the classes in force: they waste little, at most a twentieth of what is asked for.", false},
		{"the best", []int{3008, 9024}, 2, "Keep the classes in force: the classes they were compared with waste no less.", false},
		{"fewer classes", []int{2048, 4096, 9088}, 1, "Keep the classes in force: those proposed waste more. Take them only if you want fewer classes.", false},
	} {
		a, err := Recommend(Histogram{Sizes: sizes, Classes: tc.classes}, tc.k)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Verdict(); got != tc.want || a.Better() != tc.better {
			t.Errorf("%s: %q, better %v, with %+v", tc.name, got, a.Better(), a)
		}
	}
}
