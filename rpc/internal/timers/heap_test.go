package timers

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

type call struct {
	Entry
	at time.Time
	ch chan *call
}

func (c *call) DeadlinePassed() { c.ch <- c }

func TestFiresInOrderAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Heap
		const n = 500
		ch := make(chan *call, n)
		start := time.Now()
		cs := make([]*call, n)
		for i := range cs {
			c := &call{ch: ch, at: start.Add(time.Duration(1+rand.IntN(1000)) * time.Millisecond)}
			cs[i] = c
			c.Set(c.at)
			h.Add(&c.Entry, c)
		}
		removed := 0
		for i, c := range cs {
			if i%3 == 0 {
				h.Remove(&c.Entry)
				h.Remove(&c.Entry)
				removed++
			}
		}
		for range n - removed {
			c := <-ch
			if now := time.Now(); !now.Equal(c.at) {
				t.Fatalf("fired at %v for %v", now.Sub(start), c.at.Sub(start))
			}
		}
		if h.Len() != 0 || len(ch) != 0 {
			t.Fatalf("%d left, %d too many", h.Len(), len(ch))
		}
	})
}

func TestStopForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Heap
		c := &call{ch: make(chan *call, 1)}
		c.Set(time.Now().Add(time.Second))
		h.Add(&c.Entry, c)
		h.Stop()
		<-time.After(2 * time.Second)
		if len(c.ch) != 0 {
			t.Fatal("fired after Stop")
		}
	})
}

func TestNoAllocation(t *testing.T) {
	var h Heap
	c := &call{ch: make(chan *call, 1)}
	at := time.Now().Add(time.Hour)
	c.Set(at)
	h.Add(&c.Entry, c)
	h.Remove(&c.Entry)
	if n := testing.AllocsPerRun(100, func() {
		c.Set(at)
		h.Add(&c.Entry, c)
		h.Remove(&c.Entry)
	}); n > 0 {
		t.Fatalf("%v allocations a deadline", n)
	}
	h.Stop()
}

// After the last deadline has passed and no entry is left, the heap is as it was in the beginning, and can be
// used again.
func TestEmptyHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Heap
		for range 3 {
			for i := range 10 {
				c := &call{ch: make(chan *call, 1)}
				c.Set(time.Now().Add(time.Second))
				h.Add(&c.Entry, c)
				if i > 0 {
					h.Remove(&c.Entry)
				}
			}
			<-time.After(2 * time.Second)
			synctest.Wait()
			if h.es != nil || h.fired != nil || h.timer != nil {
				t.Fatalf("%d entries, room for %d and %d, timer %v", len(h.es), cap(h.es), cap(h.fired), h.timer)
			}
		}
	})
}
