package rpc

import (
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Goroutines wait at a gate for different events, give up and are woken in an order that a seed decides. In a
// bubble a waiter that is never woken is a deadlock, which fails the test. At the end no waiter is registered
// and no wake-up is left for a later waiter.
func TestGateInterleavings(t *testing.T) {
	seeds := uint64(20_000)
	if os.Getenv("TARN_LONG") != "" {
		seeds = 1_000_000
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { gateOnce(t, rand.New(rand.NewPCG(seed, 1))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func gateOnce(t *testing.T, rnd *rand.Rand) {
	var mu sync.Mutex
	var g gate
	var happened event // guarded by mu
	var wg sync.WaitGroup
	var giveUp []chan struct{}
	for range 1 + rnd.IntN(4) {
		events := event(1+rnd.IntN(3)) | endEvent
		done := make(chan struct{})
		giveUp = append(giveUp, done)
		if rnd.IntN(3) == 0 {
			done = nil
		}
		again := rnd.IntN(3)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 1 + again { // one gate is used for many waits
				mu.Lock()
				for happened&events == 0 {
					if !g.wait(&mu, events, done) {
						break
					}
				}
				mu.Unlock()
			}
		}()
	}
	for range rnd.IntN(10) {
		switch n := rnd.IntN(5); n {
		case 0:
			if i := rnd.IntN(len(giveUp)); giveUp[i] != nil {
				close(giveUp[i])
				giveUp[i] = nil
			}
		case 1:
			runtime.Gosched()
		case 4:
			mu.Lock()
			if c := g.spare(); len(c) != 0 {
				t.Error("a wake-up was given away")
			}
			mu.Unlock()
		default:
			mu.Lock()
			happened |= event(n - 1)
			g.announce(event(n - 1))
			mu.Unlock()
		}
	}
	mu.Lock()
	happened |= endEvent
	g.announce(endEvent)
	mu.Unlock()
	wg.Wait()
	if g.first != nil || g.own.busy || len(g.own.woken) != 0 {
		t.Errorf("left behind: %+v", g)
	}
}
