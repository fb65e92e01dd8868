package workers

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/h2"
)

// job is a Job that a test makes.
type job struct {
	Link[*job]
	conn *h2.Conn
	run  func(*Worker[*job]) bool
	left chan struct{}
}

func (j *job) Conn() *h2.Conn { return j.conn }

func (j *job) Handle(w *Worker[*job]) bool { return j.run(w) }

func (j *job) Exited() { close(j.left) }

// TestIdleWorkersEnd parks workers at different times: each ends when it has been idle
// for maxIdle, also if no other call is made, and the last to become idle is the first to
// be used.
func TestIdleWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New[*job](3)
		var all []*Worker[*job]
		for range 3 {
			w := &Worker[*job]{wake: make(chan struct{}, 1)}
			if !p.park(w) {
				t.Fatal("an idle worker is not kept")
			}
			all = append(all, w)
			<-time.After(maxIdle / 4)
		}
		if p.park(&Worker[*job]{}) {
			t.Fatal("more are kept than the bound")
		}
		p.Run(&job{})
		select {
		case <-all[2].wake:
		default:
			t.Fatal("another worker was woken than the last")
		}
		<-time.After(3 * maxIdle)
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
		p.Close()
	})
}

// TestQueueIsAlwaysWatched: whenever a handler runs while jobs are queued or responses
// are unsent, another worker has been woken for these.
func TestQueueIsAlwaysWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still, so nothing is due
		p := New[*job](4)
		w := make([]*Worker[*job], 4)
		for i := range w {
			w[i] = &Worker[*job]{wake: make(chan struct{}, 1)}
			p.park(w[i])
		}
		awake := func(w *Worker[*job], want bool) {
			t.Helper()
			if got := len(w.wake) == 1; got != want {
				t.Fatalf("woken: %v", got)
			}
		}
		conn := &h2.Conn{}
		jobs := []*job{{conn: conn}, {conn: conn}, {conn: conn}}
		take := func(w *Worker[*job], from state, unsent *h2.Conn, want *job) {
			t.Helper()
			if from == woken {
				<-w.wake
			}
			if j, after := p.next(w, from, unsent); j != want || after != busy {
				t.Fatal("got another job", after)
			}
		}
		for _, j := range jobs {
			p.Run(j)
		}
		if p.Next() != conn {
			t.Error("the connection of the next job is not known")
		}
		awake(w[3], true)
		awake(w[2], false) // one for all
		take(w[3], woken, nil, jobs[0])
		awake(w[2], true) // for what is queued, should the handler block
		take(w[3], busy, conn, jobs[1])
		awake(w[1], false) // one is coming
		take(w[2], woken, nil, jobs[2])
		awake(w[1], true) // for what is unsent
		if p.Next() != nil {
			t.Error("an empty queue has a next job")
		}
		p.Close()
	})
}

// TestLongQueueWakesMore: jobs that come together wake one worker for each perWorker of them, so
// that they are handled on several processors, and no more while these are on their way.
func TestLongQueueWakesMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		p := New[*job](most)
		for range most {
			p.park(&Worker[*job]{wake: make(chan struct{}, 1)})
		}
		all := append([]*Worker[*job](nil), p.idle...)
		awake := func() (n int) {
			for _, w := range all {
				n += len(w.wake)
			}
			return n
		}
		for i := 1; i <= 3*perWorker; i++ {
			p.Run(&job{conn: &h2.Conn{}})
			if got, want := awake(), (i+perWorker-1)/perWorker; got != want {
				t.Errorf("%d workers are woken for %d jobs, not %d", got, i, want)
			}
		}
		// One takes a job and wakes another: the two still on their way are too few for the eleven jobs left.
		<-all[most-1].wake
		if j, after := p.next(all[most-1], woken, nil); j == nil || after != busy {
			t.Fatal("no job", after)
		}
		if got := awake(); got != 3 {
			t.Errorf("%d workers are on their way for %d jobs, not 3", got, p.queued)
		}
		for p.queued > 0 {
			p.take()
		}
		p.Close()
	})
}

// TestBlockedHandlers: every second job blocks, and the others are handled nevertheless.
func TestBlockedHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New[*job](2)
		release := make(chan struct{})
		handled := make(chan int, 64)
		for i := range 64 {
			p.Run(&job{run: func(*Worker[*job]) bool {
				if i%2 == 0 {
					<-release
				}
				handled <- i
				return false
			}})
		}
		synctest.Wait()
		if n := len(handled); n != 32 {
			t.Errorf("%d of 32 jobs were handled while the others blocked", n)
		}
		close(release)
		synctest.Wait()
		if n := len(handled); n != 64 {
			t.Errorf("%d of 64 jobs were handled", n)
		}
		p.Close()
	})
}

// TestGoexit: OnGoexit is called for a handler that ends its goroutine, and the jobs behind it
// are handled.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New[*job](2)
		left := make(chan struct{})
		handled := make(chan struct{})
		p.Run(&job{left: left, run: func(*Worker[*job]) bool {
			runtime.Goexit()
			return false
		}})
		p.Run(&job{run: func(*Worker[*job]) bool { close(handled); return false }})
		<-left
		<-handled
		p.Close()
	})
}

// TestScratchStays: what a job leaves in its worker is there for the next one, and
// EndIdle ends the goroutine.
func TestScratchStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New[*job](2)
		p.Run(&job{run: func(w *Worker[*job]) bool { *Scratch[int](w) = 1; return false }})
		synctest.Wait()
		var got int
		p.Run(&job{run: func(w *Worker[*job]) bool { got = *Scratch[int](w); return false }})
		synctest.Wait()
		if got != 1 {
			t.Errorf("the scratch space holds %d", got)
		}
		p.EndIdle() // or synctest finds a goroutine that waits for ever
	})
}
