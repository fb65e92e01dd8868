package smb_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
)

// TestIdleReadAhead reads files one after the other and watches how long each keeps its read-ahead: at least for one second after its
// last read, and at most for two.
func TestIdleReadAhead(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const (
					gap   = 200 * time.Millisecond // between the reads of two files
					slack = 1 << 20                // receive buffers
				)
				pool := newPool(t)
				f, err := scripted(t, protections()[kind], smb.Dialer{Pool: pool})
				must(t, err)
				synctest.Wait()
				begun := time.Now()
				var held []int64 // bytes that each file holds
				for range 5 {
					before := pool.Stats().InUse
					g, err := f.Share().Open("file")
					must(t, err)
					for range 3 {
						_, err := io.ReadFull(g, make([]byte, 32<<10))
						must(t, err)
					}
					synctest.Wait() // what was requested ahead has arrived
					held = append(held, pool.Stats().InUse-before)
					if held[len(held)-1] < 1<<20 {
						t.Fatalf("bytes held: %v", held)
					}
					<-time.After(gap)
				}
				// From the time when the last file was read until all have returned theirs.
				for <-time.After(gap / 4); time.Since(begun) < 4*time.Second; <-time.After(gap / 2) {
					synctest.Wait()
					var least, most int64
					for i, n := range held {
						idle := time.Since(begun) - time.Duration(i)*gap
						if idle < time.Second {
							least += n
						}
						if idle < 2*time.Second {
							most += n
						}
					}
					if got := pool.Stats().InUse; got < least || got > most+slack {
						t.Errorf("after %v: %d bytes in use, want %d to %d", time.Since(begun), got, least, most+slack)
					}
				}
			})
		})
	}
}
