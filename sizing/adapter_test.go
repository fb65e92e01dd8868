package sizing

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
)

// ledger is a pool that only records. As in a pool's buckets, the requests of a size ask for fewer bytes than its edge.
type ledger struct {
	mu      sync.Mutex
	sizes   map[int]uint64
	classes []int
	refused error       // what SetClasses returns
	wrong   []SizeCount // recorded besides sizes
}

func (l *ledger) ask(size int, count uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes[size] += count
}

func (l *ledger) Histogram() tarn.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Histogram{Every: 1, Classes: l.classes}
	h.Sizes = slices.Clone(l.wrong)
	for size, count := range l.sizes {
		h.Sizes = append(h.Sizes, SizeCount{Size: size, Count: count, Bytes: count * uint64(size-1)})
	}
	return h
}

func (l *ledger) Classes() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.classes)
}

func (l *ledger) SetClasses(c []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return l.refused
	}
	l.classes = slices.Clone(c)
	return nil
}

func newLedger(classes ...int) *ledger { return &ledger{sizes: map[int]uint64{}, classes: classes} }

func mustAdapt(t *testing.T, p ladderPool, c AdapterConfig) *Adapter {
	t.Helper()
	a, err := newAdapter(p, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAdapterHysteresis: it takes several looks that agree, enough gets, and enough gain.
func TestAdapterHysteresis(t *testing.T) {
	l := newLedger(1024, 2048, 4096)
	a := mustAdapt(t, l, AdapterConfig{})
	for look := range 5 {
		l.ask(1100, 200000)
		_, moved, _ := a.look()
		if want := look == 3; moved != want {
			t.Fatalf("look %d: moved %v", look, moved)
		}
	}
	if got := l.Classes(); got[0] != 1152 || got[len(got)-1] != 4096 {
		t.Errorf("the ladder is %v", got)
	}

	l = newLedger(1024, 2048, 4096)
	a = mustAdapt(t, l, AdapterConfig{})
	for range 50 {
		l.ask(1100, 5000) // fewer than MinGets each time, but they add up
		a.look()
	}
	if a.Moves() != 0 {
		t.Error("moved on too few gets")
	}

	l = newLedger(1024, 2048, 4096)
	a = mustAdapt(t, l, AdapterConfig{})
	for range 50 {
		l.ask(2030, 200000) // best: 2048, which is there
		a.look()
	}
	if a.Moves() != 0 {
		t.Error("moved for no gain")
	}
}

// TestAdapterForgetsSizes: a size that is not asked for any more fades, with its bytes, and does not keep the pool
// from moving.
func TestAdapterForgetsSizes(t *testing.T) {
	l := newLedger(1024, 2048, 4096)
	a := mustAdapt(t, l, AdapterConfig{})
	l.ask(3001, 4001)
	const looks = 14 // 4001 halves to nothing in 12
	last := 0        // the last look that found the size
	for look := range looks {
		l.ask(1100, 200000)
		_, moved, _ := a.look()
		if err := Check(a.lately); err != nil {
			t.Fatalf("look %d: what was recorded lately: %v", look, err)
		}
		if want := look == 3; moved != want {
			t.Fatalf("look %d: moved %v", look, moved)
		}
		for _, s := range a.lately.Sizes {
			if s.Size != 3001 {
				continue
			}
			if last = look; s.Bytes != s.Count*3000 {
				t.Errorf("look %d: %d gets have %d bytes", look, s.Count, s.Bytes)
			}
		}
	}
	if last < 8 || last == looks-1 {
		t.Errorf("the size was last found at look %d", last)
	}
}

// TestAdapterErrors: an error of the calculation and one of the pool are seen, by the hook and by the method, and
// are gone when a look succeeds.
func TestAdapterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1024, 2048, 4096)
		var seen []error
		a, err := startAdapter(t.Context(), l, AdapterConfig{Every: time.Second, Confirm: 1, OnError: func(err error) { seen = append(seen, err) }})
		if err != nil {
			t.Fatal(err)
		}
		look := func() {
			l.ask(1100, 200000)
			<-time.After(time.Second)
			synctest.Wait()
		}
		check := func(when string, want error, calls int) {
			t.Helper()
			if err := a.Err(); !errors.Is(err, want) || len(seen) != calls || calls > 0 && want != nil && !errors.Is(seen[calls-1], want) {
				t.Errorf("%s: Err is %v, and the hook saw %v; want %v", when, err, seen, want)
			}
		}
		look()
		check("a look that has nothing to compare with", nil, 0)
		errRefused := errors.New("refused")
		l.refused = errRefused
		look()
		check("a pool that refuses the move", errRefused, 1)
		l.wrong = []SizeCount{{Size: -1, Count: 10}}
		look()
		check("a histogram that is malformed", ErrMalformed, 2)
		l.refused = nil
		for range 2 {
			look()
		}
		check("looks that succeed", nil, 2)
		if a.Moves() != 1 {
			t.Errorf("%d moves, want the one that was refused", a.Moves())
		}
		a.Stop()
	})
}

// TestAdapterIgnoresNoise: where all sizes are alike, a small sample fits some ladder well by chance,
// and no other ladder fits the next one better than the present.
func TestAdapterIgnoresNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var even []int
	for c := 512; c <= 32768; c += 512 {
		even = append(even, c)
	}
	l := newLedger(even...)
	a := mustAdapt(t, l, AdapterConfig{})
	looks := 300
	if raceEnabled { // one goroutine
		looks = 60
	}
	for range looks {
		for range 60 {
			l.ask(1+rng.IntN(32768), 2000)
		}
		a.look()
	}
	if a.Moves() != 0 {
		t.Errorf("%d moves after noise", a.Moves())
	}
}

// TestAdapterNeverThrashes: whatever the period of an alternating workload, the moves become rare.
func TestAdapterNeverThrashes(t *testing.T) {
	for _, period := range []int{1, 2, 3, 5, 8, 13, 40} {
		l := newLedger(1024, 2048, 4096, 8192)
		a := mustAdapt(t, l, AdapterConfig{Classes: 2, Confirm: 1})
		const looks = 2000
		for look := range looks {
			size := 1100
			if look/period%2 == 1 {
				size = 4200
			}
			l.ask(size, 200000)
			a.look()
		}
		if limit := 10 + looks/(firstPause<<maxHurried); a.Moves() > limit {
			t.Errorf("period %d: %d moves in %d looks, want at most %d", period, a.Moves(), looks, limit)
		}
	}
}

// TestAdapterConverges: a pool under two workloads in turn, in fake time. Within a few looks after each
// change the waste is that of the best ladder.
func TestAdapterConverges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		static := []int{1 << 10, 4 << 10, 16 << 10, 64 << 10}
		p, err := tarn.NewPool(tarn.PoolConfig{Classes: static, Check: tarn.CheckOff})
		if err != nil {
			t.Fatal(err)
		}
		var moves []Move
		a, err := Adapt(t.Context(), p, AdapterConfig{Every: time.Second, MinGets: 10000, OnMove: func(m Move) { moves = append(moves, m) }})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		gets := 20000
		if raceEnabled { // just above MinGets
			gets = 11000
		}
		for _, workload := range [][]int{{1100, 5000}, {2500, 20000}} {
			for range 30 {
				for range gets {
					p.Get(workload[rng.IntN(2)] + rng.IntN(20)).Free()
				}
				<-time.After(time.Second)
				synctest.Wait()
			}
			h := Histogram{Sizes: counts(uint64(workload[0])+20, 1, uint64(workload[1])+20, 1)}
			before, _ := Measure(h, static)
			after, err := Measure(h, p.Classes())
			if err != nil || after.Share() > 0.05 || after.Oversize > 0 {
				t.Errorf("%v: waste %.2f with %v, %.2f with the static ladder; %v", workload, after.Share(), p.Classes(), before.Share(), err)
			}
		}
		if a.Moves() != len(moves) || len(moves) < 2 || len(moves) > 4 {
			t.Errorf("%d moves for two workloads: %+v", len(moves), moves)
		}
		if err := a.Static(); err != nil || !slices.Equal(p.Classes(), static) {
			t.Errorf("back to static: %v, %v", p.Classes(), err)
		}
		<-time.After(time.Hour)
		if !slices.Equal(p.Classes(), static) {
			t.Error("moved after Static")
		}
		a.Stop() // again
	})
}

// TestMoveUnderLoad: while the ladder moves back and forth, no buffer is overwritten and all return to the
// pool.
func TestMoveUnderLoad(t *testing.T) {
	p, err := tarn.NewPool(tarn.PoolConfig{Classes: []int{1024, 4096}, Check: tarn.CheckOff})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	for worker := range byte(4) {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				b := p.Get(500 + i%4000)
				b.Bytes()[0], b.Bytes()[b.Len()-1] = worker, worker
				if b.Bytes()[0] != worker || b.Bytes()[b.Len()-1] != worker {
					t.Error("a buffer was overwritten by another goroutine")
				}
				b.Free()
			}
		})
	}
	for i := range 300 {
		if err := p.SetClasses([]int{1024 + i%7*64, 2048 + i%5*64, 4096 + 512*(i%2)}); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if s := p.Stats(); s.InUse != 0 || s.InUseBuffers != 0 {
		t.Errorf("%d bytes in %d buffers are still out", s.InUse, s.InUseBuffers)
	}
}

// TestMoveAllocates: once buffers of the new ladder are back in the pool, gets allocate nothing, as before
// the move.
func TestMoveAllocates(t *testing.T) {
	if raceEnabled {
		return // under the race detector sync.Pool drops one in four at random
	}
	p, err := tarn.NewPool(tarn.PoolConfig{Classes: []int{1024, 4096}, Check: tarn.CheckOff})
	if err != nil {
		t.Fatal(err)
	}
	for _, ladder := range [][]int{{1024, 4096}, {2048, 4096}, {1024, 4096}} {
		if err := p.SetClasses(ladder); err != nil {
			t.Fatal(err)
		}
		p.Get(900).Free()
		if n := testing.AllocsPerRun(1000, func() { p.Get(900).Free() }); n != 0 {
			t.Errorf("%v: %v allocations a get", ladder, n)
		}
	}
}

func TestAdapterOptions(t *testing.T) {
	for _, c := range []struct {
		field  string
		config AdapterConfig
	}{
		{"Every", AdapterConfig{Every: -1}}, {"Classes", AdapterConfig{Classes: -1}}, {"Classes", AdapterConfig{Classes: MaxClasses + 1}},
		{"Gain", AdapterConfig{Gain: 1}}, {"Gain", AdapterConfig{Gain: -0.1}}, {"Gain", AdapterConfig{Gain: math.NaN()}}, {"Confirm", AdapterConfig{Confirm: -1}},
	} {
		_, err := Adapt(context.Background(), tarn.Shared(), c.config)
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.field+" is ") {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
}
