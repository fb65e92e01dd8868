package h2

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestUnaryAllocations asserts that an exchange allocates nothing on either side, nor
// with fields that differ from call to call beyond those fields' strings.
func TestUnaryAllocations(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	if raceEnabled {
		t.Log("allocations are not counted under the race detector")
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools, whose allocations are not to be counted
	c, stop := benchPair(t, tcpWiring, newHandServer(t, 2))
	defer stop()
	body := make([]byte, 100)
	w := &waiter{done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	exchange := func() {
		if err := callOnce(c, w, ctx, body); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		exchange()
	}
	if n := testing.AllocsPerRun(500, exchange); n >= 0.5 {
		t.Errorf("%v allocations an exchange", n)
	}
}
