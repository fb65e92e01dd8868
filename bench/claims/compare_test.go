package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// turns prints a benchmark of Tarn and one peer, a line a turn.
func turns(allocs int, ours, theirs [3]float64) string {
	var b strings.Builder
	for i := range ours {
		fmt.Fprintf(&b, "BenchmarkSplit/peer=tarn-2 100 %g ns/op %d allocs/op\n", ours[i], allocs)
		fmt.Fprintf(&b, "BenchmarkSplit/peer=grpc-2 100 %g ns/op 9 allocs/op\n", theirs[i])
	}
	return b.String()
}

func TestCompareNamesWhatGotSlower(t *testing.T) {
	before, err := read(t, turns(0, [3]float64{10, 30, 20}, [3]float64{100, 100, 100}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		now  string
		want []string
	}{
		{"the same", turns(0, [3]float64{10, 30, 20}, [3]float64{100, 100, 100}), nil},
		{"a slower machine, the same ratio", turns(0, [3]float64{100, 300, 200}, [3]float64{1000, 1000, 1000}), nil},
		{"within the spread", turns(0, [3]float64{29, 31, 28}, [3]float64{100, 100, 100}), nil},
		{"slower in every turn", turns(0, [3]float64{40, 50, 60}, [3]float64{100, 100, 100}),
			[]string{"Split: 0.5 of grpc's ns/op, before 0.2"}},
		{"an allocation more", turns(1, [3]float64{10, 30, 20}, [3]float64{100, 100, 100}),
			[]string{"Split: allocations an operation: 1, before 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, err := read(t, c.now)
			if err != nil {
				t.Fatal(err)
			}
			got, compared := compare(before, now)
			if !slices.Equal(got, c.want) || compared != 2 {
				t.Errorf("got %q of %d compared, want %q of 2", got, compared, c.want)
			}
		})
	}
}

// One allocation more is named however many there were, unless some turn before had as many.
func TestCompareNamesEveryAllocation(t *testing.T) {
	same := [3]float64{10, 10, 10}
	for _, c := range []struct {
		before string
		want   []string
	}{
		{turns(19, same, same), []string{"Split: allocations an operation: 20, before 19"}},
		{turns(19, same, same) + turns(20, same, same), nil},
	} {
		before, err := read(t, c.before)
		if err != nil {
			t.Fatal(err)
		}
		now, err := read(t, turns(20, same, same))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := compare(before, now); !slices.Equal(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestRateCountsInverted(t *testing.T) {
	r, err := read(t, "BenchmarkUnary/peer=tarn-2 10 100 ns/op 400 calls/s\nBenchmarkUnary/peer=grpc-2 10 100 ns/op 100 calls/s\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.ratios("Unary", "grpc", "calls/s"); !slices.Equal(got, []float64{0.25}) {
		t.Errorf("got %v", got)
	}
}

// A rate says the same as the elapsed time of an operation, so that a slower benchmark is named once.
func TestCompareNamesARateOnce(t *testing.T) {
	unary := func(rate int) *results {
		r, err := read(t, fmt.Sprintf("BenchmarkUnary/peer=tarn-2 10 %d ns/op %d calls/s\nBenchmarkUnary/peer=grpc-2 10 100 ns/op 100 calls/s\n", 10000/rate, rate))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	got, compared := compare(unary(400), unary(200))
	if want := []string{"Unary: 0.5 of grpc's calls/s, before 0.25"}; !slices.Equal(got, want) || compared != 1 {
		t.Errorf("got %q of %d compared, want %q of 1", got, compared, want)
	}
}

func TestDoubts(t *testing.T) {
	same := [3]float64{10, 10, 10}
	before, err := read(t, "cpu: Abacus\n"+turns(0, same, same))
	if err != nil {
		t.Fatal(err)
	}
	if got := doubts(before, before); len(got) != 0 {
		t.Errorf("three turns on one machine: %q", got)
	}
	now, err := read(t, "cpu: Slide rule\nBenchmarkSplit/peer=tarn-2 100 10 ns/op\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := doubts(before, now); len(got) != 2 {
		t.Errorf("one turn on another machine: %q", got)
	}
}
