package tarn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// The bound that the documentation of Chain states.
func heapBound(payload, largest int) int { return 4*payload + 4*largest + 4<<10 }

// cutter cuts fragments off separate slabs, as a protocol does off its receive buffer.
type cutter struct {
	pool *tarn.Pool
	size int
	rest tarn.Buffer
}

func (c *cutter) fragment(skip, n int) tarn.Buffer {
	if c.rest.Len() < skip+n {
		c.rest.Free()
		c.rest = c.pool.Get(max(c.size, skip+n))
	}
	var b tarn.Buffer
	b, c.rest = c.rest.Split(skip + n)
	return b.Narrow(skip, skip+n)
}

// unchecked is a pool fast enough for a million fragments; that all of it is freed is still asserted.
func unchecked(t testing.TB) *tarn.Pool {
	t.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Name: t.Name(), Check: tarn.CheckOff})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s := p.Stats(); s.InUse != 0 {
			t.Errorf("%d bytes in %d slabs were never freed", s.InUse, s.InUseBuffers)
		}
	})
	return p
}

// TestOneByteSegments is the attack of CVE-2026-84304: a peer sends its data in frames of one byte.
func TestOneByteSegments(t *testing.T) {
	for _, slab := range []int{512, 4 << 10, 32 << 10, 1 << 20} {
		for _, skip := range []int{0, 1, 9, 600} {
			t.Run(fmt.Sprintf("slab=%d/skip=%d", slab, skip), func(t *testing.T) {
				pool := unchecked(t)
				frames := cutter{pool: pool, size: slab}
				var c tarn.Chain
				for c.Len() < 10_000 {
					c.Append(frames.fragment(skip, 1))
					if bound := heapBound(c.Len(), pool.ClassSize(slab)); c.Len()%997 == 0 && c.Held() > bound {
						t.Fatalf("%d bytes hold %d of heap, over %d", c.Len(), c.Held(), bound)
					}
				}
				frames.rest.Free()
				if s := pool.Stats(); s.InUse > int64(heapBound(c.Len(), pool.ClassSize(slab))) {
					t.Errorf("%d bytes in %d segments keep %d from the pool", c.Len(), c.Segments(), s.InUse)
				}
				c.Free()
			})
		}
	}
}

// Every fragment of a peer arrives in a separate receive buffer.
func TestSegmentPerSlab(t *testing.T) {
	for _, n := range []int{1, 63, 255, 256, 1000, 8000, 17_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			pool := unchecked(t)
			var c tarn.Chain
			for range 500 {
				c.Append(pool.Get(64<<10).Narrow(10, 10+n))
				if bound := heapBound(c.Len(), 64<<10); c.Held() > bound {
					t.Fatalf("%d bytes hold %d of heap, over %d", c.Len(), c.Held(), bound)
				}
			}
			c.Free()
		})
	}
}

// TestZeroCopyFrames: frames that fill their receive buffers are kept as they are, without a copy.
func TestZeroCopyFrames(t *testing.T) {
	pool := tarntest.NewPool(t)
	frames := cutter{pool: pool, size: 128 << 10}
	var c tarn.Chain
	var first [][]byte
	for range 40 {
		b := frames.fragment(9, 16<<10)
		first = append(first, b.Bytes())
		c.Append(b)
	}
	frames.rest.Free()
	views, err := c.Peek(c.Len(), nil)
	if err != nil || len(views) != len(first) {
		t.Fatalf("%d views, %v", len(views), err)
	}
	for i := range views {
		if &views[i][0] != &first[i][0] {
			t.Errorf("frame %d was copied", i)
		}
	}
	c.Free()
}

// TestForeignSegments: small pieces of foreign memory are copied, so that it is released.
func TestForeignSegments(t *testing.T) {
	pool := tarntest.NewPool(t)
	var c tarn.Chain
	released := 0
	for range 100 {
		b := pool.Wrap(make([]byte, 64<<10), func([]byte) { released++ })
		c.Append(b.Narrow(5, 600))
	}
	if released < 97 {
		t.Errorf("%d of 100 pieces of memory were released", released)
	}
	c.Free()
	if released != 100 {
		t.Errorf("%d of 100 pieces of memory were released in the end", released)
	}
}

// TestCoarsePool uses a pool whose smallest class is far larger than what is packed.
func TestCoarsePool(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Classes: []int{64 << 10}})
	frames := cutter{pool: p, size: 64 << 10}
	var c tarn.Chain
	for range 50_000 {
		c.Append(frames.fragment(9, 1))
	}
	if held := c.Held(); held > heapBound(c.Len(), 64<<10) {
		t.Errorf("%d bytes hold %d", c.Len(), held)
	}
	frames.rest.Free()
	c.Free()
}

// TestBoundWhileConsumed uses a queue that grows: each step puts more in than it takes out.
func TestBoundWhileConsumed(t *testing.T) {
	pool := unchecked(t)
	var c tarn.Chain
	for i := range 2000 {
		c.Append(pool.Get(64<<10).Narrow(10, 1010))
		if i > 3 {
			c.Discard(900)
		}
		if bound := heapBound(c.Len(), 64<<10); c.Held() > bound {
			t.Fatalf("%d bytes hold %d of heap, over %d", c.Len(), c.Held(), bound)
		}
	}
	c.Free()
}

// TestRingShrinks checks that the records of segments that were consumed are given up.
func TestRingShrinks(t *testing.T) {
	pool := unchecked(t)
	var c tarn.Chain
	for range 20_000 {
		c.Append(pool.Get(100))
	}
	for c.Len() > 0 {
		c.Discard((c.Len() + 1) / 2)
		if bound := heapBound(c.Len(), 128); c.Held() > bound {
			t.Fatalf("%d bytes hold %d of heap, over %d", c.Len(), c.Held(), bound)
		}
	}
}

// TestNeighboursPayTogether appends a slab in small pieces that are joined again: the chain uses most
// of that slab, so it must not be copied when another follows.
func TestNeighboursPayTogether(t *testing.T) {
	pool := tarntest.NewPool(t)
	var c tarn.Chain
	defer c.Free()
	for range 3 {
		c.Append(pool.Get(2048))
	}
	frames := cutter{pool: pool, size: 64 << 10}
	b := frames.fragment(0, 300)
	at := &b.Bytes()[0]
	c.Append(b)
	for range 100 {
		c.Append(frames.fragment(0, 300))
	}
	frames.rest.Free()
	c.Append(pool.Get(64<<10).Narrow(0, 1000))
	views, err := c.Peek(c.Len(), nil)
	if err != nil || len(views) != 5 || &views[3][0] != at {
		t.Errorf("%d views, %v, or copied", len(views), err)
	}
}

// TestBoundUnderRandomUse lets several streams share receive buffers of several sizes, consumes
// from them in every way, and checks the bound after each step.
func TestBoundUnderRandomUse(t *testing.T) {
	for range programs(10) {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%#x", seed), func(t *testing.T) { boundUnderRandomUse(t, seed) })
	}
}

func boundUnderRandomUse(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	pool := unchecked(t)
	var cutters []*cutter
	for _, size := range []int{64, 500, 4 << 10, 64 << 10, 64 << 10, 256 << 10} {
		cutters = append(cutters, &cutter{pool: pool, size: size})
	}
	var streams [3]tarn.Chain
	largest := pool.ClassSize(256 << 10)
	sizes := []int{1, 5, 60, 255, 256, 300, 2000, 16 << 10}
	worst := 0.0
	for range 3000 {
		c := &streams[r.IntN(len(streams))]
		switch k := r.IntN(20); {
		case k < 12:
			cut := cutters[r.IntN(len(cutters))]
			size := sizes[r.IntN(len(sizes))]
			for range r.IntN(40) {
				c.Append(cut.fragment(r.IntN(20), 1+r.IntN(size)))
			}
		case k < 14:
			if _, err := c.Discard(r.IntN(c.Len() + 1)); err != nil {
				t.Fatal(err)
			}
		case k < 15:
			if _, err := c.Discard(max(0, c.Len()-r.IntN(2000))); err != nil {
				t.Fatal(err)
			}
		case k < 17:
			n := r.IntN(c.Len() + 1)
			for o := &streams[r.IntN(len(streams))]; o != c && n > 0; n = 0 {
				if err := c.CutTo(o, n); err != nil {
					t.Fatal(err)
				}
			}
		case k < 18:
			b, err := c.Next(r.IntN(min(c.Len(), 5000) + 1))
			if err != nil {
				t.Fatal(err)
			}
			streams[r.IntN(len(streams))].Append(b)
		case k < 19:
			if _, err := c.ReadFrom(&dribble{rest: make([]byte, r.IntN(10_000)), step: 1 + r.IntN(3000)}); err != nil {
				t.Fatal(err)
			}
		default:
			c.AppendChain(&streams[r.IntN(len(streams))])
		}
		for i := range streams {
			c := &streams[i]
			over := float64(c.Held()-4*c.Len()-4<<10) / float64(largest)
			worst = max(worst, over)
			if c.Held() > heapBound(c.Len(), largest) {
				t.Fatalf("%d bytes in %d segments hold %d of heap, over %d", c.Len(), c.Segments(), c.Held(), heapBound(c.Len(), largest))
			}
		}
	}
	t.Logf("at worst 4 bytes a byte and %.2f slabs", worst)
	for _, cut := range cutters {
		cut.rest.Free()
	}
	for i := range streams {
		streams[i].Free()
	}
}
