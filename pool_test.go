package tarn_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
)

func newPool(t testing.TB, c tarn.PoolConfig) *tarn.Pool {
	t.Helper()
	p, err := tarn.NewPool(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewPoolRefusesBadConfigs(t *testing.T) {
	tell := func(tarn.Watermark, int64) {}
	for name, c := range map[string]struct {
		config tarn.PoolConfig
		want   error
	}{
		"no classes":          {tarn.PoolConfig{Classes: []int{}}, tarn.ErrClasses},
		"zero class":          {tarn.PoolConfig{Classes: []int{0, 64}}, tarn.ErrClasses},
		"negative class":      {tarn.PoolConfig{Classes: []int{-64}}, tarn.ErrClasses},
		"unsorted classes":    {tarn.PoolConfig{Classes: []int{128, 64}}, tarn.ErrClasses},
		"repeated class":      {tarn.PoolConfig{Classes: []int{64, 64}}, tarn.ErrClasses},
		"huge class":          {tarn.PoolConfig{Classes: []int{tarn.MaxClassSize + 1}}, tarn.ErrClasses},
		"too many classes":    {tarn.PoolConfig{Classes: ascending(tarn.MaxClasses + 1)}, tarn.ErrClasses},
		"negative retain":     {tarn.PoolConfig{Retain: -2}, tarn.ErrConfig},
		"negative budget":     {tarn.PoolConfig{Budget: -1}, tarn.ErrConfig},
		"negative watermark":  {tarn.PoolConfig{HighWater: 1, LowWater: -1, OnWatermark: tell}, tarn.ErrConfig},
		"low above high":      {tarn.PoolConfig{HighWater: 1, LowWater: 2, OnWatermark: tell}, tarn.ErrConfig},
		"watermark, no ears":  {tarn.PoolConfig{HighWater: 1}, tarn.ErrConfig},
		"negative sampling":   {tarn.PoolConfig{CheckEvery: -1}, tarn.ErrConfig},
		"negative guard":      {tarn.PoolConfig{GuardBytes: -1}, tarn.ErrConfig},
		"unknown zero policy": {tarn.PoolConfig{Zero: 9}, tarn.ErrConfig},
		"unknown check level": {tarn.PoolConfig{Check: 9}, tarn.ErrConfig},
		"unknown recording":   {tarn.PoolConfig{Record: 9}, tarn.ErrConfig},
	} {
		p, err := tarn.NewPool(c.config)
		if !errors.Is(err, c.want) || p != nil {
			t.Errorf("%s: NewPool = %v, %v; want %v", name, p, err, c.want)
		}
	}
}

func ascending(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

func TestPoolKeepsItsOwnClasses(t *testing.T) {
	mine := []int{64, 4096}
	p := newPool(t, tarn.PoolConfig{Classes: mine})
	mine[0] = 1
	if got := p.Classes(); !slices.Equal(got, []int{64, 4096}) {
		t.Errorf("Classes = %v after the caller's slice changed", got)
	}
}

// Whatever the ladder, a length gets the smallest class that holds it.
func TestClassSizeIsTheSmallestThatFits(t *testing.T) {
	for name, classes := range map[string][]int{
		"default":   tarn.DefaultClasses(),
		"one":       {1},
		"odd":       {7, 100, 1000, 1001, 1002, 1003, 65536, 65537, 1 << 20},
		"crowded":   ascending(tarn.MaxClasses),
		"grpc":      {256, 4 << 10, 16 << 10, 32 << 10, 1 << 20},
		"headers":   {16384, 16384 + 9, 65536, 65536 + 80, 1 << 20, 1<<20 + 132},
		"max":       {1 << 10, tarn.MaxClassSize},
		"neighbors": {1 << 29, 1<<29 + 1, 1<<30 - 1, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, tarn.PoolConfig{Classes: classes})
			check := func(n int) {
				want := n
				if i, _ := slices.BinarySearch(classes, n); n > 0 && i < len(classes) {
					want = classes[i]
				}
				if got := p.ClassSize(n); got != want {
					t.Fatalf("ClassSize(%d) = %d, want %d", n, got, want)
				}
			}
			for n := range 10_000 {
				check(n)
			}
			for _, c := range classes {
				for d := -2; d <= 2; d++ {
					check(c + d)
				}
			}
			for shift := range 31 {
				check(1<<shift - 1)
				check(1 << shift)
				check(1<<shift + 1)
			}
			check(math.MaxInt32)
			check(math.MaxInt)
			check(math.MinInt)
		})
	}
}

func TestDefaultLadderWastesAnEighthAtMost(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{})
	largest := slices.Max(tarn.DefaultClasses())
	for n := 1025; n <= largest; n += 1 + n/1000 {
		size := p.ClassSize(n)
		if waste := float64(size-n) / float64(size); waste > 0.125 {
			t.Fatalf("%d bytes take a slab of %d: %.1f%% wasted", n, size, 100*waste)
		}
	}
	for _, payload := range []int{16 << 10, 64 << 10, 1 << 20, 4 << 20, 8 << 20} {
		if size := p.ClassSize(payload + 152); size > payload+payload/8 {
			t.Errorf("%d bytes and a header take a slab of %d", payload, size)
		}
	}
}

func TestGetLengths(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Classes: []int{64, 1024}, Check: tarn.CheckAll})
	for _, n := range []int{0, 1, 63, 64, 65, 1023, 1024, 1025, 1 << 20} {
		b := p.Get(n)
		if b.Len() != n || len(b.Bytes()) != n || cap(b.Bytes()) != n {
			t.Errorf("Get(%d): Len %d, len %d, cap %d", n, b.Len(), len(b.Bytes()), cap(b.Bytes()))
		}
		b.Free()
	}
	if b := p.Get(0); !b.IsZero() || !b.Unique() {
		t.Errorf("Get(0) = %+v, want the zero Buffer", b)
	}
}

func TestGetPanicsOnWhatMakeRefuses(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{})
	lengths := []int{-1, math.MinInt}
	if math.MaxInt > math.MaxUint32 {
		lengths = append(lengths, math.MaxInt) // on 32 bits make tries, and the runtime ends the process
	}
	for _, n := range lengths {
		if caught(func() { p.Get(n) }) == nil {
			t.Errorf("Get(%d) did not panic", n)
		}
	}
	p.Get(100).Free() // the pool still works
}

// withoutPanic is a PoolConfig.Report for tests that provoke panics: other misuse fails them.
func withoutPanic(t testing.TB) func(tarn.Misuse) {
	return func(m tarn.Misuse) {
		if m.Kind != tarn.UseAfterFree && m.Kind != tarn.DoubleFree && m.Kind != tarn.Unguarded {
			t.Errorf("reported: %v", &m)
		}
	}
}

// caught is what f panics with, nil if it does not.
func caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestZeroPolicies(t *testing.T) {
	dirty := func(p *tarn.Pool) {
		b := p.Get(1000)
		for i := range b.Bytes() {
			b.Bytes()[i] = 0xFF
		}
		b.Free()
	}
	t.Run("on get", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Zero: tarn.ZeroOnGet})
		dirty(p)
		b := p.Get(500).Narrow(100, 400)
		defer func() { b.Free() }()
		grown, ok := b.GrowTail(b.Tailroom())
		if !ok {
			t.Fatal("no room to grow into")
		}
		if b = grown; slices.Max(b.Bytes()) != 0 {
			t.Error("bytes handed out or grown into are not zero")
		}
	})
	t.Run("on free", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Zero: tarn.ZeroOnFree})
		b := p.Get(1000)
		stale := b.Bytes() // to look at freed memory
		copy(stale, "secret")
		b.Free()
		//tarn:allow use the cleared memory is what is tested
		if slices.Max(stale) != 0 {
			t.Errorf("%q is left after Free", strings.TrimRight(string(stale), "\x00"))
		}
	})
}

func TestSharedIsOnePool(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if first, second := tarn.Shared(), tarn.Shared(); first != second {
				t.Error("two shared pools")
			}
			tarn.Shared().Get(100).Free()
		})
	}
	wg.Wait()
}

func TestWrapReleasesOnce(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	mine := []byte("foreign memory")
	released := 0
	b := p.Wrap(mine, func(back []byte) {
		released++
		if &back[0] != &mine[0] || len(back) != len(mine) {
			t.Error("released other memory than was wrapped")
		}
	})
	head, tail := b.Split(7)
	if got := p.Stats().Wrapped; got != 1 {
		t.Errorf("Wrapped = %d", got)
	}
	head.Free()
	if released != 0 || string(tail.Bytes()) != " memory" {
		t.Errorf("after the first Free: released %d times, tail %q", released, tail.Bytes())
	}
	tail.Free()
	if released != 1 {
		t.Errorf("released %d times", released)
	}
	if caught(tail.Free) == nil || released != 1 {
		t.Error("a second Free did not panic")
	}
	if st := p.Stats(); st.Wrapped != 0 || st.InUse != 0 || st.Idle != 0 {
		t.Errorf("foreign memory is still counted: %+v", st)
	}
	if string(mine) != "foreign memory" {
		t.Errorf("foreign memory was overwritten: %q", mine)
	}
	p.Wrap(nil, nil).Free()
	p.Wrap(mine, nil).Free()
}

func TestSetClasses(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Classes: []int{64, 1024}})
	old := p.Get(1000)
	p.Get(10).Free()
	if err := p.SetClasses([]int{64, 2048, 1 << 20}); err != nil {
		t.Fatal(err)
	}
	b := p.Get(1000)
	if b.Pinned() != 2048 {
		t.Errorf("after the move 1000 bytes pin %d", b.Pinned())
	}
	b.Free()
	old.Free()
	st := p.Stats()
	if st.Gets != 3 || st.Frees != 3 || st.InUseBuffers != 0 {
		t.Errorf("totals lost in the move: %+v", st)
	}
	if got := p.Classes(); !slices.Equal(got, []int{64, 2048, 1 << 20}) {
		t.Errorf("Classes = %v", got)
	}
	if err := p.SetClasses([]int{2, 1}); !errors.Is(err, tarn.ErrClasses) {
		t.Errorf("SetClasses of an unsorted ladder: %v", err)
	}
	if got := p.Classes(); len(got) != 3 {
		t.Errorf("a refused ladder changed the one in force: %v", got)
	}
}

// Get and Free go on while SetClasses changes the ladder.
func TestSetClassesUnderLoad(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Classes: []int{64, 1024}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5_000 {
				b := p.Get(1 + (i*37+g)%1500)
				b.Bytes()[0] = byte(g)
				if b.Bytes()[0] != byte(g) {
					t.Error("another owner wrote")
				}
				b.Free()
			}
		})
	}
	wg.Go(func() {
		for i := range 200 {
			if err := p.SetClasses([]int{64, 1024 + i%7, 2048}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	collect(t, "balanced after the moves", func() bool {
		st := p.Stats()
		return st.InUseBuffers == 0 && st.Gets == 40_000 && st.Frees == 40_000
	})
}
