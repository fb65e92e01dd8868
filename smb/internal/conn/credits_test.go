package conn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func newWaiter() *Call { return &Call{slot: slot{done: make(chan struct{}, 1)}} }

// Callers get credits in the order of their calls, no more are used than granted, and no MessageId is left
// out.
func TestCreditsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := credits{avail: 4}
		var got [3]uint64
		served := 0
		if mid, n, err := k.acquire(t.Context(), newWaiter(), 4, 4); mid != 0 || n != 4 || err != nil {
			t.Fatal(mid, n, err)
		}
		for i, want := range []int{3, 1, 2} {
			go func() {
				mid, n, err := k.acquire(t.Context(), newWaiter(), want, want)
				if n != want || err != nil {
					t.Error(n, err)
				}
				k.mu.Lock()
				got[i], served = mid, served+1
				k.mu.Unlock()
			}()
			synctest.Wait()
		}
		if _, _, ok := k.try(1, 1); ok {
			t.Error("a caller that does not wait got a credit before waiting ones")
		}
		k.answered(1, 2, 0) // too few for the first in the queue, enough for the second: it waits all the same
		synctest.Wait()
		if served != 0 {
			t.Fatalf("%d callers served", served)
		}
		k.answered(3, 4, 0)
		synctest.Wait()
		if want := [3]uint64{4, 7, 8}; got != want || served != 3 {
			t.Errorf("%d served with the MessageIds %d, want %d", served, got, want)
		}
		if k.avail != 0 || k.outstanding != 6 {
			t.Errorf("%d to spend, %d outstanding", k.avail, k.outstanding)
		}
	})
}

// A caller whose context ends leaves the queue, and those behind it are served.
func TestCreditsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := credits{avail: 4, outstanding: 4}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, _, err := k.acquire(ctx, newWaiter(), 8, 8)
			first <- err
		}()
		synctest.Wait()
		go func() {
			_, _, err := k.acquire(t.Context(), newWaiter(), 1, 1)
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

// A caller gets an error when the server does not grant what it needs: at once when it needs all credits
// together; with fewer credits than it wants when fewer will do; and with ErrProtocol when no reply can grant
// any.
func TestTooFewCredits(t *testing.T) {
	k := credits{avail: 1, outstanding: 1}
	if _, err := k.acquireAll(t.Context(), newWaiter(), 3); !errors.Is(err, ErrNoCredits) {
		t.Error(err)
	}
	k = credits{avail: 2}
	if _, n, err := k.acquire(t.Context(), newWaiter(), 16, 1); n != 2 || err != nil {
		t.Error(n, err)
	}
	var ended error
	k = credits{starved: func(err error) { ended = err }}
	if _, _, err := k.acquire(t.Context(), newWaiter(), 1, 1); !errors.Is(err, ErrProtocol) || ended != err {
		t.Errorf("%v; the connection ends with %v", err, ended)
	}
	k.fail(ErrLost)
	if _, _, err := k.acquire(t.Context(), newWaiter(), 1, 1); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}
