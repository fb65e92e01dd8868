package h2

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/tarntest"
)

// TestWriterLingers: on a connection on which nothing can be tried, a writer goroutine that has nothing to send stays for 50 ms
// at least and 100 ms at most, whenever it began to wait. The Write before it begins 10 ms after the greeting was sent, and
// takes until end.
func TestWriterLingers(t *testing.T) {
	for _, ms := range []int{10, 11, 49, 51, 60, 99, 101, 149, 151, 1001} {
		end := time.Duration(ms) * time.Millisecond
		t.Run(end.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc := newStepNet()
				pool := tarntest.NewPool(t)
				c, err := NewClient(nc, newRecorder(t), Config{Pool: pool})
				if err != nil {
					t.Fatal(err)
				}
				run := make(chan struct{})
				go func() { defer close(run); c.Run() }()
				lingers := func() bool {
					synctest.Wait()
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.send.parked
				}
				begun := time.Now()
				at := func(d time.Duration) { <-time.After(time.Until(begun.Add(d))) }
				nc.allow(1 << 10) // the greeting
				if !lingers() {
					t.Fatal("no writer goroutine stays")
				}
				at(10 * time.Millisecond)
				nc.taken()
				s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Data: pool.Get(20_000), Ending: End})
				if err != nil {
					t.Fatal(err)
				}
				at(end)
				if lingers() {
					t.Fatal("the Write has not been sent")
				}
				nc.allow(1 << 20)
				for _, after := range []time.Duration{0, lingerTime - time.Millisecond} {
					if at(end + after); !lingers() {
						t.Errorf("%v after its last Write the goroutine has ended", after)
					}
				}
				if at(end + 2*lingerTime); lingers() {
					t.Errorf("%v after its last Write the goroutine is there", 2*lingerTime)
				}
				s.Release()
				c.Close()
				<-run
			})
		})
	}
}
