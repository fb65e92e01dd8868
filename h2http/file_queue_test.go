package h2http

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/h2"
)

// queueTest has files wait in one queue.
type queueTest struct {
	t *testing.T
	q fileQueue
}

// begin has f ask for its turn. The channel receives how many bytes to read.
func (q *queueTest) begin(f *queuedFile, p h2.Priority) <-chan int {
	f.queue = &q.q
	got := make(chan int, 1)
	go func() { got <- f.next(p) }()
	synctest.Wait()
	return got
}

// want fails unless the turn that got is for has come, for a piece of n bytes, without any time passing.
func (q *queueTest) want(what string, got <-chan int, n int) {
	q.t.Helper()
	synctest.Wait()
	select {
	case m := <-got:
		if m != n {
			q.t.Errorf("%s reads %d bytes at a time, want %d", what, m, n)
		}
	default:
		q.t.Fatalf("%s waits", what)
	}
}

// waits fails if the turn that got is for has come.
func (q *queueTest) waits(what string, got <-chan int) {
	q.t.Helper()
	synctest.Wait()
	select {
	case <-got:
		q.t.Fatalf("%s does not wait", what)
	default:
	}
}

// TestFileQueue has files of several priorities wait for each other, in fake time.
func TestFileQueue(t *testing.T) {
	ordinary, urgent := h2.DefaultPriority(), h2.Priority{Urgency: 1}
	incremental := h2.Priority{Urgency: 1, Incremental: true}
	for name, run := range map[string]func(q *queueTest){
		"a share each": func(q *queueTest) {
			var a, b queuedFile
			q.want("a", q.begin(&a, ordinary), filePiece)
			second := q.begin(&b, ordinary)
			for range fileShare/filePiece - 1 {
				q.want("a", q.begin(&a, ordinary), filePiece)
				q.waits("b", second)
			}
			first := q.begin(&a, ordinary)
			q.want("b", second, filePiece)
			q.waits("a", first)
			b.leave()
			q.want("a", first, filePiece)
			a.leave()
		},
		"alone": func(q *queueTest) {
			var a queuedFile
			for range 2*fileShare/filePiece + 1 {
				q.want("a", q.begin(&a, ordinary), filePiece)
			}
			a.leave()
		},
		"urgency": func(q *queueTest) {
			var a, b, c queuedFile
			q.want("a", q.begin(&a, ordinary), filePiece)
			second, third := q.begin(&b, ordinary), q.begin(&c, urgent)
			first := q.begin(&a, ordinary)
			q.want("the urgent file", third, filePiece)
			c.leave()
			q.want("b", second, filePiece)
			q.waits("a", first)
			b.leave()
			q.want("a", first, filePiece)
			a.leave()
		},
		"incremental": func(q *queueTest) {
			var a, b, c queuedFile
			q.want("a", q.begin(&a, ordinary), filePiece)
			q.want("the incremental file", q.begin(&b, incremental), pieceSize)
			third := q.begin(&c, ordinary)
			q.want("a, which has become incremental", q.begin(&a, incremental), pieceSize)
			q.want("c", third, filePiece)
			a.leave()
			b.leave()
			c.leave()
		},
		"one that stalls": func(q *queueTest) {
			var a, b, c queuedFile
			q.want("a", q.begin(&a, ordinary), filePiece)
			second, third := q.begin(&b, ordinary), q.begin(&c, ordinary)
			<-time.After(fileTurn + fileTurn/2) // in fake time
			q.want("b", second, pieceSize)
			q.waits("c", third)
			first := q.begin(&a, ordinary)
			b.leave()
			q.want("c", third, filePiece)
			q.waits("a", first)
			c.leave()
			q.want("a", first, filePiece)
			a.leave()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(&queueTest{t: t}) })
		})
	}
}
