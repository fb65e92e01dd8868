package rpc

import (
	"math"
	"testing"
)

// TestAdmission: requests are let through up to a quarter of the limit; beyond that one request, however large, or
// several that have no more than a sixteenth of the limit to come. The others wait, and the one that asked first is let
// through first. A request with which all hold more than the limit is refused.
func TestAdmission(t *testing.T) {
	const mib = 1 << 20
	a := &admission{most: gatherMost} // 256 MiB: a quarter is 64 MiB, a sixteenth 16 MiB
	ask := func(c *serverCall, memory, missing int, want admissionVerdict) {
		t.Helper()
		if got := a.ask(c, memory*mib, missing*mib); got != want {
			t.Fatalf("the verdict is %d, want %d, with %d MiB let through and %d MiB held", got, want, a.gathered/mib, a.held/mib)
		}
	}
	within := make([]*serverCall, 16)
	for i := range within {
		within[i] = new(serverCall)
		ask(within[i], 4, 1, admit)
	}
	over := make([]*serverCall, 5)
	for i := range over {
		over[i] = new(serverCall)
	}
	ask(over[0], 4, 12, admit)
	ask(over[1], 4, 5, hold)
	ask(over[2], 4, 5, hold)
	ask(over[3], 4, 4, hold)   // it fits, but would overtake
	ask(over[0], 10, 6, admit) // only its end lets the others through
	if next := a.release(within[0]); len(next) != 0 {
		t.Fatalf("%d calls are let through while the limits are as before", len(next))
	}
	next := a.release(over[0])
	if len(next) != 3 || next[0] != over[1] || next[1] != over[2] || next[2] != over[3] {
		t.Fatalf("after the end of one call %d are let through", len(next))
	}
	ask(over[4], 183, 5, hold)
	ask(over[4], 185, 3, refuse)
	for _, c := range append(over, within...) {
		a.release(c)
	}
	if a.gathered != 0 || a.drawn != 0 || a.held != 0 || len(a.waiting) != 0 {
		t.Errorf("when all calls have ended, %d bytes are let through, %d drawn, %d held, %d calls wait", a.gathered, a.drawn, a.held, len(a.waiting))
	}
}

// TestAdmissionOfHugeRequests: requests whose lengths together are beyond what an int counts do not take the overdraft of one.
func TestAdmissionOfHugeRequests(t *testing.T) {
	a := &admission{most: gatherMost}
	first, second := new(serverCall), new(serverCall)
	for _, c := range []struct {
		call *serverCall
		want admissionVerdict
	}{{first, admit}, {second, hold}} {
		if got := a.ask(c.call, gatherMost/2, math.MaxInt); got != c.want {
			t.Errorf("the verdict is %d, want %d", got, c.want)
		}
	}
	if next := a.release(first); len(next) != 1 || a.drawn != math.MaxInt {
		t.Errorf("after the end of the first, %d are let through, and %d bytes are drawn", len(next), a.drawn)
	}
}
