package adapt

import (
	"math/rand"
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// refusals returns a pool on which slices may be refused, and checks at the end that as many were
// refused as want says and that no buffer is still out.
func refusals(t *testing.T, want uint64) *tarn.Pool {
	t.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Check: tarn.CheckAll, Report: func(tarn.Misuse) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s := p.Stats()
		if s.Refused != want {
			t.Errorf("%d slices refused, want %d", s.Refused, want)
		}
		if s.InUseBuffers != 0 {
			t.Errorf("%d buffers still out: %v", s.InUseBuffers, p.Outstanding())
		}
	})
	return p
}

// fill writes a pattern over b up to its capacity, and check reports whether it is still there.
func fill(b []byte, seed byte) {
	b = b[:cap(b)]
	for i := range b {
		b[i] = seed + byte(i)
	}
}

func check(t *testing.T, b []byte, seed byte) {
	t.Helper()
	for i := range b {
		if b[i] != seed+byte(i) {
			t.Errorf("byte %d was overwritten", i)
			return
		}
	}
}

// hammer has goroutines take, fill, check and give back slices, several at a time.
func hammer(t *testing.T, get func(n int) func(t *testing.T, seed byte)) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewSource(int64(g)))
			var held [8]func(*testing.T, byte)
			for i := range 1000 {
				if k := i & 7; held[k] != nil {
					held[k](t, byte(g*8+k))
				}
				held[i&7] = get(rnd.Intn(3 << 10))
				held[i&7](nil, byte(g*8+i&7))
			}
			for k, h := range held {
				h(t, byte(g*8+k))
			}
		})
	}
	wg.Wait()
}

// The shapes that the libraries ask for; that they accept these types is compiled in module bench.
type (
	grpcBufferPool interface {
		Get(length int) *[]byte
		Put(*[]byte)
	}
	httputilBufferPool interface {
		Get() []byte
		Put([]byte)
	}
	arrowAllocator interface {
		Allocate(size int) []byte
		Reallocate(size int, b []byte) []byte
		Free(b []byte)
	}
)

func TestShapes(t *testing.T) {
	p := tarntest.NewPool(t)
	var (
		_ grpcBufferPool     = GRPC(p)
		_ httputilBufferPool = HTTPUtil(p, 0)
		_ arrowAllocator     = Arrow(p)
	)
}

func TestConstructorsRefuseNonsense(t *testing.T) {
	p := tarntest.NewPool(t)
	for name, f := range map[string]func(){
		"GRPC(nil)":       func() { GRPC(nil) },
		"HTTPUtil(nil)":   func() { HTTPUtil(nil, 1) },
		"HTTPUtil(p, -1)": func() { HTTPUtil(p, -1) },
		"Arrow(nil)":      func() { Arrow(nil) },
		"Get(-1)":         func() { GRPC(p).Get(-1) },
		"Allocate(-1)":    func() { Arrow(p).Allocate(-1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}

// steadyPool is a pool as in production, for counting allocations.
func steadyPool(t *testing.T) *tarn.Pool {
	t.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Check: tarn.CheckOff})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func noAllocs(t *testing.T, f func()) {
	t.Helper()
	if raceEnabled {
		// Under the race detector sync.Pool drops a quarter of what it is given, at random.
		f()
		return
	}
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%v allocations an operation, want none", n)
	}
}
