package sizing

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	good := Histogram{Every: 64, Classes: []int{128, 256}, Sizes: counts(100, 3, 200, 4)}
	data, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(strings.NewReader(string(data)))
	if err != nil || !reflect.DeepEqual(got, good) {
		t.Errorf("got %+v, %v; want %+v", got, err, good)
	}
	for _, tc := range []struct {
		in   string
		want error
	}{
		{"", ErrMalformed},
		{"{", ErrMalformed},
		{"[]", ErrMalformed},
		{"null", ErrEmpty},
		{"{}", ErrEmpty},
		{`{"sizes":[{"size":-4,"count":1}]}`, ErrMalformed},
		{`{"sizes":[{"size":4,"count":-1}]}`, ErrMalformed},
		{`{"sizes":[{"size":4.5,"count":1}]}`, ErrMalformed},
		{`{"sizes":[{"size":2000000000,"count":1}]}`, ErrTooLarge},
		{`{"classes":[4,4],"sizes":[{"size":4,"count":1}]}`, ErrMalformed},
	} {
		if _, err := Read(strings.NewReader(tc.in)); !errors.Is(err, tc.want) {
			t.Errorf("%q: got %v, want %v", tc.in, err, tc.want)
		}
	}
	if _, err := Read(iotest.ErrReader(io.ErrClosedPipe)); err != io.ErrClosedPipe {
		t.Errorf("the reader's own error: got %v", err)
	}
}

func TestSince(t *testing.T) {
	before := Histogram{Sizes: counts(10, 5, 20, 1)}
	now := Histogram{Peak: 7, Sizes: counts(10, 9, 20, 1, 30, 2)}
	got := Since(now, before)
	if want := counts(10, 4, 30, 2); !reflect.DeepEqual(got.Sizes, want) || got.Peak != 7 {
		t.Errorf("got %+v, want %v", got, want)
	}
	if got := Since(before, now); !reflect.DeepEqual(got, before) {
		t.Errorf("counts that fell: got %+v, want all of the newer", got)
	}
	if got := Since(Histogram{}, before); len(got.Sizes) != 0 {
		t.Errorf("a restart without requests: got %+v", got)
	}
}

func TestMeasure(t *testing.T) {
	h := Histogram{Sizes: counts(100, 2, 200, 3, 5000, 1)}
	u, err := Measure(h, []int{128, 256})
	want := Usage{Gets: 6, Requested: 800, Slab: 1024, Oversize: 1}
	if err != nil || u != want {
		t.Errorf("got %+v, %v; want %+v", u, err, want)
	}
	if u.Waste() != 224 || u.Share() != 224.0/1024 {
		t.Errorf("waste %d, share %v", u.Waste(), u.Share())
	}
	if _, err := Measure(h, []int{2, 2}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a ladder that does not rise: %v", err)
	}
	if u, err := Measure(h, nil); err != nil || u.Oversize != 6 || u.Share() != 0 {
		t.Errorf("no ladder: %+v, %v", u, err)
	}
}

// FuzzParse: whatever the bytes, no panic; and what is taken can be solved.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"every":8,"classes":[1,2],"sizes":[{"size":100,"count":3},{"size":7,"count":18446744073709551615}]}`))
	f.Add([]byte(`{"sizes":[{"size":1099511627776,"count":18446744073709551615}]}`))
	f.Add([]byte(`{"sizes":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Parse(data)
		if err != nil {
			for _, typed := range []error{ErrMalformed, ErrEmpty, ErrTooLarge} {
				if errors.Is(err, typed) {
					return
				}
			}
			t.Fatalf("an error that matches none of the package's: %v", err)
		}
		ladder, err := Solve(h, 4)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := Measure(h, ladder); err != nil || u.Oversize != 0 {
			t.Fatalf("%v leaves out %d: %v", ladder, u.Oversize, err)
		}
	})
}
