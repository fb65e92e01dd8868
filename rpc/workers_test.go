package rpc

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleWorkersEnd parks workers at different times: each ends when it has had
// nothing to do for workerIdle, though nothing else happens, and the last to
// become idle is the first to be used.
func TestIdleWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws := newWorkers(3)
		var all []*worker
		for range 3 {
			w := &worker{wake: make(chan struct{}, 1)}
			if !ws.park(w) {
				t.Fatal("not wanted")
			}
			all = append(all, w)
			<-time.After(workerIdle / 4)
		}
		if ws.park(&worker{}) {
			t.Fatal("more are kept than the bound")
		}
		ws.run(&serverCall{})
		select {
		case <-all[2].wake:
		default:
			t.Fatal("another worker was woken than the last")
		}
		<-time.After(3 * workerIdle)
		for i, w := range all[:2] {
			select {
			case _, open := <-w.wake:
				if open {
					t.Fatalf("worker %d was woken", i)
				}
			default:
				t.Fatalf("worker %d is still waiting", i)
			}
		}
		ws.close()
	})
}
