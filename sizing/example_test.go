package sizing_test

import (
	"fmt"

	"github.com/tarn-go/tarn/sizing"
)

// A service asks for blocks of 16 KiB and a header, and for small records. Two classes fit it better
// than any power of two.
func Example() {
	recorded := sizing.Histogram{
		Classes: []int{1 << 10, 4 << 10, 16 << 10, 64 << 10}, // the ladder in force
		Sizes: []sizing.SizeCount{
			{Size: 900, Count: 5000},
			{Size: 16<<10 + 40, Count: 1000},
		},
	}
	ladder, err := sizing.Solve(recorded, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	now, _ := sizing.Measure(recorded, recorded.Classes)
	best, _ := sizing.Measure(recorded, ladder)
	fmt.Printf("now %.0f%% wasted, then %.0f%%\n", 100*now.Share(), 100*best.Share())
	fmt.Println(sizing.GoLine(ladder))
	// Output:
	// now 70% wasted, then 0%
	// Classes: []int{900, 16424},
}

// Fewer classes find an idle slab more often; a replay shows the effect.
func ExampleSimulate() {
	trace := sizing.Trace{Events: []sizing.Event{
		{Op: sizing.OpGet, Arg: 1000},
		{Op: sizing.OpFree, Arg: 0},
		{Op: sizing.OpGet, Arg: 3000},
		{Op: sizing.OpFree, Arg: 1},
	}}
	for _, ladder := range [][]int{{1024, 4096}, {4096}} {
		o, err := sizing.Simulate(trace, sizing.Replay{Classes: ladder, Retain: 1 << 20})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: %.0f%% hits, at most %d bytes wasted at a time\n", ladder, 100*o.HitRate(), o.PeakWaste)
	}
	// Output:
	// [1024 4096]: 0% hits, at most 1096 bytes wasted at a time
	// [4096]: 50% hits, at most 3096 bytes wasted at a time
}
