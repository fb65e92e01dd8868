package rpc

import (
	"context"
	"testing"
)

// TestPeers makes a call and sends messages on a stream with every contestant, so that a benchmark
// that fails does so here first.
func TestPeers(t *testing.T) {
	for _, sec := range securities(t) {
		for _, p := range peers() {
			t.Run("tls="+sec.name+"/peer="+p.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				c := start(t, p, sec)
				stream, err := c.stream(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, size := range []int{0, 1, 100_000} {
					if err := once(ctx, c.unary, request(size), size); err != nil {
						t.Errorf("a call of %d bytes: %v", size, err)
					}
					resp, err := stream(request(size))
					if err == nil {
						err = checkSize(resp, size)
					}
					if err != nil {
						t.Errorf("a message of %d bytes: %v", size, err)
					}
				}
			})
		}
	}
}
