package sizing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func sampleTrace() Trace {
	return Trace{
		Notes: []string{"a sample"},
		Events: []Event{
			{OpGet, 100}, {OpGet, 300}, {OpFree, 0}, {OpGet, 90}, {OpCycle, 0},
			{OpFree, 2}, {OpFree, 1}, {OpGet, 5000}, {OpGet, 128},
		},
	}
}

func TestTraceRoundTrip(t *testing.T) {
	want := sampleTrace()
	var plain, zipped bytes.Buffer
	if _, err := want.WriteTo(&plain); err != nil {
		t.Fatal(err)
	}
	if text := "tarn-trace 1\n# a sample\n+100\n+300\n-1\n+90\n!\n-0\n-1\n+5000\n+128\n"; plain.String() != text {
		t.Errorf("got %q", plain.String())
	}
	z := gzip.NewWriter(&zipped)
	z.Write(plain.Bytes())
	z.Close()
	for _, in := range []*bytes.Buffer{&plain, &zipped} {
		got, err := ReadTrace(in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestReadTraceErrors(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want error
	}{
		{"", ErrEmpty},
		{"tarn-trace 1\n", ErrEmpty},
		{"hello\n", ErrMalformed},
		{"tarn-trace 1\n+0\n", ErrMalformed},
		{"tarn-trace 1\n+x\n", ErrMalformed},
		{"tarn-trace 1\n-0\n", ErrMalformed},
		{"tarn-trace 1\n+5\n-0\n-0\n", ErrMalformed},
		{"tarn-trace 1\n+5\n-1\n", ErrMalformed},
		{"tarn-trace 1\n+5\n--1\n", ErrMalformed},
		{"tarn-trace 1\n?5\n", ErrMalformed},
		{"\x1f\x8b0000000000", ErrMalformed},
	} {
		if _, err := ReadTrace(strings.NewReader(tc.in)); !errors.Is(err, tc.want) {
			t.Errorf("%q: got %v, want %v", tc.in, err, tc.want)
		}
	}
}

func TestTraceHistogram(t *testing.T) {
	h := sampleTrace().Histogram()
	if want := counts(90, 1, 100, 1, 128, 1, 300, 1, 5000, 1); !reflect.DeepEqual(h.Sizes, want) {
		t.Errorf("sizes %v", h.Sizes)
	}
	if want := []LifeCount{{Cycles: 0, Count: 1}, {Cycles: 1, Count: 2}}; !reflect.DeepEqual(h.Lifetimes, want) {
		t.Errorf("lifetimes %v", h.Lifetimes)
	}
}

func TestSimulate(t *testing.T) {
	got, err := Simulate(sampleTrace(), Replay{Classes: []int{128, 512}, Retain: 1 << 20})
	want := Outcome{
		Gets: 5, Hits: 2, Misses: 3, Oversize: 1, // the 90 and the 128 take the slab of the 100
		Requested: 100 + 300 + 90 + 5000 + 128, Slab: 128 + 512 + 128 + 5000 + 128,
		PeakInUse: 5128, PeakHeld: 5000 + 128 + 512, PeakWaste: 212 + 38, Out: 2,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := Simulate(sampleTrace(), Replay{Classes: []int{128, 512}}); err != nil || got.Hits != 0 || got.Dropped != 3 {
		t.Errorf("nothing kept: %+v, %v", got, err)
	}
	if got, err := Simulate(sampleTrace(), Replay{}); err != nil || got.Oversize != 5 || got.WasteShare() != 0 {
		t.Errorf("no classes: %+v, %v", got, err)
	}
	if _, err := Simulate(Trace{}, Replay{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no events: %v", err)
	}
	if _, err := Simulate(Trace{Events: []Event{{OpFree, 0}}}, Replay{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a free of nothing: %v", err)
	}
}

// TestSimulateIdleCycles: classes without gets lose their idle slabs within a few cycles, the others keep them.
func TestSimulateIdleCycles(t *testing.T) {
	var tr Trace
	for range 8 {
		tr.Events = append(tr.Events, Event{OpGet, 100})
	}
	for i := range 8 {
		tr.Events = append(tr.Events, Event{OpFree, i})
	}
	next := 8
	for range 6 {
		tr.Events = append(tr.Events, Event{OpCycle, 0}, Event{OpGet, 100}, Event{OpFree, next})
		next++
	}
	got, err := Simulate(tr, Replay{Classes: []int{128}, Retain: -1})
	if err != nil || got.Hits != 6 || got.Dropped != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestSimulateAgreesWithMeasure: summed over gets, a replay wastes what the histogram says.
func TestSimulateAgreesWithMeasure(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var tr Trace
	var out []int
	for gets := 0; gets < 5000; {
		switch {
		case len(out) > 0 && rng.IntN(2) == 0:
			i := rng.IntN(len(out))
			tr.Events = append(tr.Events, Event{OpFree, out[i]})
			out = append(out[:i], out[i+1:]...)
		case rng.IntN(100) == 0:
			tr.Events = append(tr.Events, Event{OpCycle, 0})
		default:
			tr.Events = append(tr.Events, Event{OpGet, 1 + rng.IntN(1<<uint(rng.IntN(18)+1))})
			out = append(out, gets)
			gets++
		}
	}
	h := tr.Histogram()
	for k := 1; k <= 32; k *= 2 {
		ladder, err := Solve(h, k)
		if err != nil {
			t.Fatal(err)
		}
		u, err := Measure(h, ladder)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Simulate(tr, Replay{Classes: ladder, Retain: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if o.Slab-o.Requested != u.Waste() || o.Gets != u.Gets || o.Hits+o.Misses != o.Gets || o.Out != len(out) {
			t.Errorf("k=%d: replay %+v, histogram %+v", k, o, u)
		}
		if o.PeakHeld > o.PeakInUse+1<<20 {
			t.Errorf("k=%d: %d bytes held over a peak of %d and a bound of %d", k, o.PeakHeld, o.PeakInUse, 1<<20)
		}
	}
}

// FuzzReadTrace: whatever the bytes, no panic; and what is taken can be replayed and written again.
func FuzzReadTrace(f *testing.F) {
	f.Add([]byte("tarn-trace 1\n# n\n+100\n+7\n!\n-1\n-0\n"))
	f.Add([]byte("tarn-trace 1\n+1099511627776\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := ReadTrace(bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := Simulate(tr, Replay{Classes: []int{64, 4096}, Retain: 1 << 16}); err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if _, err := tr.WriteTo(&again); err != nil {
			t.Fatal(err)
		}
		got, err := ReadTrace(&again)
		if err != nil || !reflect.DeepEqual(got.Events, tr.Events) {
			t.Fatalf("not the same after writing: %v", err)
		}
	})
}
