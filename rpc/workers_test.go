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

// TestQueueIsAlwaysWatched: whenever a handler runs while calls are queued or
// responses are unsent, another worker has been woken for these.
func TestQueueIsAlwaysWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still, so nothing is due
		ws := newWorkers(4)
		w := make([]*worker, 4)
		for i := range w {
			w[i] = &worker{wake: make(chan struct{}, 1)}
			ws.park(w[i])
		}
		awake := func(w *worker, want bool) {
			t.Helper()
			if got := len(w.wake) == 1; got != want {
				t.Fatalf("woken: %v", got)
			}
		}
		conn := &serverConn{}
		calls := []*serverCall{{conn: conn}, {conn: conn}, {conn: conn}}
		take := func(w *worker, from state, unsent *serverConn, want *serverCall) {
			t.Helper()
			if from == woken {
				<-w.wake
			}
			if c, after := ws.next(w, from, unsent); c != want || after != busy {
				t.Fatal("got another call", after)
			}
		}
		for _, c := range calls {
			ws.run(c)
		}
		awake(w[3], true)
		awake(w[2], false) // one for all
		take(w[3], woken, nil, calls[0])
		awake(w[2], true) // for what is queued, should the handler block
		take(w[3], busy, conn, calls[1])
		awake(w[1], false) // one is coming
		take(w[2], woken, nil, calls[2])
		awake(w[1], true) // for what is unsent
		ws.close()
	})
}
