package bench

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestRelayRate: how long a relay takes depends on how many bytes it forwards and not on the lengths in which they are written: what it
// holds passes in each delay, and no more.
func TestRelayRate(t *testing.T) {
	const delay, total = 5 * time.Millisecond, 32 * relayHolds
	for _, size := range []int{32 << 10, 255 << 10, 1<<20 + 9} {
		synctest.Test(t, func(t *testing.T) {
			client, src := net.Pipe()
			dst, server := net.Pipe()
			go relay(dst, src, delay)
			go func() {
				defer client.Close()
				data := make([]byte, size)
				for left := total; left > 0; {
					n, err := client.Write(data[:min(left, size)])
					if err != nil {
						t.Error(err)
						return
					}
					left -= n
				}
			}()
			begun := time.Now()
			n, err := io.Copy(io.Discard, server)
			if took := time.Since(begun); n != total || err != nil || took != total/relayHolds*delay {
				t.Errorf("in pieces of %d bytes, %d bytes took %v, not %v: %v", size, n, took, total/relayHolds*delay, err)
			}
		})
	}
}
