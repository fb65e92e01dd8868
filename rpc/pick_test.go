package rpc

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// TestPickIsEven: with several connections each gets as many calls as any other,
// however many callers there are.
func TestPickIsEven(t *testing.T) {
	const conns, callers, calls = 3, 4, 300
	set := &readySet{}
	hits := make(map[*clientConn]*atomic.Int32)
	for range conns {
		c := new(clientConn)
		set.conns = append(set.conns, c)
		hits[c] = new(atomic.Int32)
	}
	cc := new(ClientConn)
	cc.ready.Store(set)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				c, err := cc.pick(context.Background(), &callInfo{})
				if err != nil {
					t.Error(err)
					return
				}
				hits[c].Add(1)
			}
		})
	}
	wg.Wait()
	for _, c := range set.conns {
		if n := hits[c].Load(); n != callers*calls/conns {
			t.Errorf("%d of %d calls on one of %d connections", n, callers*calls, conns)
		}
	}
}
