package tarn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn"
)

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
