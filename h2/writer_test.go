package h2

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/tarntest"
)

// TestWriterStays: on a connection on which nothing can be tried, one writer goroutine sends everything until the connection ends,
// here because it is never idle.
func TestWriterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := newStepNet()
		pool := tarntest.NewPool(t)
		c, err := NewClient(nc, newRecorder(t), Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); c.Run() }()
		stays := func() bool {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.send.parked
		}
		nc.allow(1 << 20)
		if !stays() {
			t.Fatal("no writer goroutine waits after the greeting")
		}
		<-time.After(time.Hour)
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Data: pool.Get(20_000), Ending: End})
		if err != nil {
			t.Fatal(err)
		}
		waits := stays()
		if n := len(nc.taken()); !waits || n < 20_000 {
			t.Errorf("%d bytes were sent; the goroutine waits: %v", n, waits)
		}
		s.Release()
		c.Close()
		<-run // and the goroutine ends, or the bubble would fail
	})
}
