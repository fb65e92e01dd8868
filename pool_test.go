package tarn_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
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

// This suite runs the same tests on every allocator of Buffers: pools of every check level and policy, and
// arenas on them.

// An allocatorCase is an Allocator with what a test may ask about it.
type allocatorCase struct {
	tarn.Allocator
	pool    *tarn.Pool
	edges   []int // lengths around which something changes
	zeroed  bool  // Get returns zeros
	release func()
}

func TestAllocators(t *testing.T) {
	for _, check := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckSampled, tarn.CheckAll, tarn.CheckGuard} {
		for zero, policy := range []string{"never", "on get", "on free"} {
			config := tarn.PoolConfig{
				Classes: []int{64, 100, 1000, 4096, 65_536}, Check: check, CheckEvery: 3, Zero: tarn.ZeroPolicy(zero),
				Report: withoutPanic(t),
			}
			name := fmt.Sprintf("check=%v/zero=%s", check, policy)
			t.Run(name+"/pool", func(t *testing.T) {
				p := newPool(t, config)
				runAllocator(t, allocatorCase{p, p, config.Classes, zero == 1, func() {}})
			})
			t.Run(name+"/arena", func(t *testing.T) {
				p := newPool(t, config)
				a := tarn.NewArena(p, 4096)
				runAllocator(t, allocatorCase{a, p, []int{1, 1024, 4096, 65_536}, false, a.Free})
			})
		}
	}
	t.Run("default ladder", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{})
		runAllocator(t, allocatorCase{p, p, p.Classes(), false, func() {}})
	})
	t.Run("one class", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Classes: []int{1}})
		runAllocator(t, allocatorCase{p, p, []int{1}, false, func() {}})
	})
	t.Run("small arena", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{})
		a := tarn.NewArena(p, 1)
		runAllocator(t, allocatorCase{a, p, []int{16, 64}, false, a.Free})
	})
}

func runAllocator(t *testing.T, a allocatorCase) {
	for _, law := range []struct {
		name string
		f    func(*testing.T, allocatorCase)
	}{
		{"lengths", testLengths}, {"apart", testApart}, {"views", testViews}, {"grow", testGrow},
		{"copies", testCopies}, {"stale", testStale}, {"zeroed", testZeroed}, {"concurrent", testConcurrent},
		{"chain", testChainOn},
	} {
		t.Run(law.name, func(t *testing.T) { law.f(t, a) })
		a.release()
		if s := a.pool.Stats(); s.InUseBuffers != 0 || s.InUse != 0 || s.Leaked != 0 {
			t.Errorf("after %s %d slabs are out (%d bytes), %d leaked", law.name, s.InUseBuffers, s.InUse, s.Leaked)
		}
	}
}

func testLengths(t *testing.T, a allocatorCase) {
	if b := a.Get(0); !b.IsZero() || b.Len() != 0 || b.Bytes() != nil {
		t.Error("Get(0) is not the zero Buffer")
	}
	for _, n := range []int{-1, -1 << 31} {
		if caught(func() { a.Get(n) }) == nil {
			t.Errorf("Get(%d) does not panic", n)
		}
	}
	for _, edge := range a.edges {
		for n := max(edge-1, 1); n <= edge+1; n++ {
			b := a.Get(n)
			if p := b.Bytes(); b.Len() != n || len(p) != n || cap(p) != n {
				t.Errorf("Get(%d): Len %d, Bytes of %d and capacity %d", n, b.Len(), len(p), cap(p))
			}
			if b.Pinned() < n {
				t.Errorf("Get(%d) pins %d", n, b.Pinned())
			}
			b.Free()
		}
	}
}

// fillWith writes a pattern by which buffers are distinguished.
func fillWith(p []byte, v int) {
	for i := range p {
		p[i] = byte(v + i*7)
	}
}

func filledWith(p []byte, v int) bool {
	for i := range p {
		if p[i] != byte(v+i*7) {
			return false
		}
	}
	return true
}

// testApart checks that buffers in use at the same time do not overlap.
func testApart(t *testing.T, a allocatorCase) {
	r := rand.New(rand.NewPCG(1, 2))
	var out []tarn.Buffer
	for i := range 200 {
		b := a.Get(1 + r.IntN(1+i*10))
		fillWith(b.Bytes(), len(out))
		out = append(out, b)
	}
	for i, b := range out {
		if !filledWith(b.Bytes(), i) {
			t.Errorf("buffer %d of %d bytes was overwritten", i, b.Len())
		}
		b.Free()
	}
}

func testViews(t *testing.T, a allocatorCase) {
	for _, n := range []int{1, 2, 50, 64, 777, 5000} {
		b := a.Get(n)
		fillWith(b.Bytes(), n)
		want := bytes.Clone(b.Bytes())
		i, j := n/3, n-n/4
		slice, again := b.Slice(i, j), b.Ref()
		if b.Unique() || slice.Unique() {
			t.Error("unique with three references")
		}
		if !bytes.Equal(slice.Bytes(), want[i:j]) || cap(slice.Bytes()) != j-i || !bytes.Equal(again.Bytes(), want) {
			t.Errorf("Slice(%d, %d) or Ref of %d shows other bytes", i, j, n)
		}
		head, tail := b.Split(j)
		if !bytes.Equal(head.Bytes(), want[:j]) || !bytes.Equal(tail.Bytes(), want[j:]) {
			t.Errorf("Split(%d) of %d shows other bytes", j, n)
		}
		if _, ok := tail.Join(head); ok && j > 0 && j < n {
			t.Error("joined in the wrong order")
		}
		whole, ok := head.Join(tail)
		if !ok || !bytes.Equal(whole.Bytes(), want) {
			t.Errorf("Join of what Split(%d) made: %v", j, ok)
		}
		whole = whole.Narrow(i, j)
		again.Free()
		slice.Free()
		if !bytes.Equal(whole.Bytes(), want[i:j]) {
			t.Errorf("Narrow(%d, %d) of %d shows other bytes", i, j, n)
		}
		for _, f := range []func(){
			func() { whole.Slice(-1, 0) }, func() { whole.Slice(0, whole.Len()+1) }, func() { whole.Slice(1, 0) },
			func() { whole.Split(-1) }, func() { whole.Split(whole.Len() + 1) },
			func() { whole.Narrow(-1, 0) }, func() { whole.Narrow(0, whole.Len()+1) },
			func() { whole.GrowTail(-1) }, func() { whole.GrowHead(-1) },
		} {
			if caught(f) == nil {
				t.Error("a length out of bounds did not panic")
			}
		}
		whole.Free()
	}
}

func testGrow(t *testing.T, a allocatorCase) {
	b := a.Get(40)
	fillWith(b.Bytes(), 3)
	b = b.Narrow(4, 30)
	head, tail := b.Headroom(), b.Tailroom()
	if !b.Unique() && head+tail > 0 {
		t.Error("room of a shared slab")
	}
	if _, ok := b.GrowTail(tail + 1); ok {
		t.Error("grew beyond the tail room")
	}
	if _, ok := b.GrowHead(head + 1); ok {
		t.Error("grew beyond the head room")
	}
	b, okTail := b.GrowTail(tail)
	b, okHead := b.GrowHead(head)
	if !okTail || !okHead || b.Len() != 26+head+tail || b.Unique() && b.Len() != b.Pinned() {
		t.Errorf("grew to %d of %d bytes", b.Len(), b.Pinned())
	}
	if b = b.Narrow(head, head+26); b.Bytes()[0] != byte(3+4*7) || b.Bytes()[25] != byte(3+29*7) {
		t.Error("growing changed the bytes")
	}
	b.Free()
}

func testCopies(t *testing.T, a allocatorCase) {
	b := a.Get(3000)
	fillWith(b.Bytes(), 9)
	clone := b.Clone()
	if !clone.Unique() || !filledWith(clone.Bytes(), 9) || &clone.Bytes()[0] == &b.Bytes()[0] {
		t.Error("Clone is not a separate copy of the bytes")
	}
	clone.Free()
	if got := b.AppendTo([]byte("x")); got[0] != 'x' || !filledWith(got[1:], 9) {
		t.Error("AppendTo")
	}
	b = b.Narrow(0, 10).Shrink()
	if b.Len() != 10 || !filledWith(b.Bytes(), 9) {
		t.Error("Shrink changed the bytes")
	}
	b.Free()
}

// testStale checks that each use of a freed buffer panics with a *Misuse.
func testStale(t *testing.T, a allocatorCase) {
	b := a.Get(2000)
	b.Free()
	a.release() // so that the slab of an arena returns to its pool
	for name, f := range map[string]func(){
		"Bytes": func() { b.Bytes() }, "Ref": func() { b.Ref() }, "Slice": func() { b.Slice(0, 1) },
		"Split": func() { b.Split(1) }, "Unique": func() { b.Unique() }, "Free": b.Free, "Clone": func() { b.Clone() },
		"GrowTail": func() { b.GrowTail(1) }, "Append": func() { new(tarn.Chain).Append(b) },
		"Prepend": func() { new(tarn.Chain).Prepend(b) },
	} {
		var m *tarn.Misuse
		if err, _ := caught(f).(error); !errors.As(err, &m) {
			t.Errorf("%s of a freed buffer: %v", name, err)
		}
	}
}

func testZeroed(t *testing.T, a allocatorCase) {
	if !a.zeroed {
		return // contents are undefined
	}
	for _, n := range []int{10, 64, 900, 4096} {
		b := a.Get(n)
		fillWith(b.Bytes(), 1)
		b.Free()
		b = a.Get(n / 2)
		b, _ = b.GrowTail(b.Tailroom())
		if len(bytes.Trim(b.Bytes(), "\x00")) != 0 {
			t.Errorf("%d bytes are not all zero", b.Len())
		}
		b.Free()
	}
}

// testConcurrent has goroutines get, share, pass on and free.
func testConcurrent(t *testing.T, a allocatorCase) {
	const workers, rounds = 8, 300
	queue := make(chan tarn.Buffer, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range rounds {
				n := 1 + r.IntN(3000)
				b := a.Get(n)
				fillWith(b.Bytes(), n)
				head, tail := b.Split(n / 2)
				queue <- head
				if !filledWith(tail.Bytes(), n+n/2*7) {
					t.Error("bytes were overwritten")
				}
				tail.Free()
				other := <-queue
				if p := other.Bytes(); len(p) > 0 && !filledWith(p, int(p[0])) {
					t.Error("bytes were overwritten on their way to another goroutine")
				}
				other.Free()
			}
		})
	}
	wg.Wait()
}

// testChainOn runs Chain and Writer on the allocator.
func testChainOn(t *testing.T, a allocatorCase) {
	w := tarn.NewWriter(a)
	var want []byte
	for i := range 60 {
		b := a.Get(1 + i*i)
		fillWith(b.Bytes(), i)
		want = b.AppendTo(want)
		w.Append(b)
		p := bytes.Repeat([]byte{byte(i)}, 5*i)
		want = append(want, p...)
		w.Write(p)
	}
	c := w.Take()
	b, err := c.Next(c.Len())
	if err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%d bytes of %d, or not the same: %v", b.Len(), len(want), err)
	}
	b.Free()
}

// The fast path allocates nothing in steady state, with counters, recording and stale
// checks on.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector drops items of every sync.Pool at random: only that nothing breaks is tested")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools, whose allocations are not to be counted
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	budgeted := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff, Budget: 1 << 20, Zero: tarn.ZeroOnGet})
	arena := tarn.NewArena(p, 64<<10)
	defer arena.Free()
	for name, f := range map[string]func(){
		"Get, Free": func() { p.Get(4096).Free() },
		"Get, Ref, Slice, Split, Free": func() {
			b := p.Get(4096)
			r, s := b.Ref(), b.Slice(10, 20)
			head, tail := b.Split(100)
			r.Free()
			s.Free()
			head, _ = head.Join(tail)
			head.Free()
		},
		"Get, Grow, Free": func() {
			b, _ := p.Get(4000).GrowTail(96)
			b.Narrow(10, 100).Free()
		},
		"Acquire, Free": func() {
			b, _ := budgeted.Acquire(t.Context(), 4096)
			b.Free()
		},
		"Arena.Get, Free":    func() { arena.Get(100).Free() },
		"large Arena pieces": func() { arena.Get(16 << 10).Free() },
	} {
		for range 1000 {
			f()
		}
		if n := testing.AllocsPerRun(2000, f); n != 0 && !raceEnabled {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
