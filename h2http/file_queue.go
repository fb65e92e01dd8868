package h2http

import (
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tarn-go/tarn/h2"
)

const (
	// filePiece is how many bytes of a long file are read at a time in its turn.
	filePiece = 128 << 10
	// fileShare is how many bytes of a file are read in one turn while others wait.
	fileShare = 1 << 20
	// fileTurn is after how long a turn ends while other files wait, at the latest after twice that: the file may be on
	// a slow disk, or its stream's window shut. Less would end turns whenever other programs have the processor.
	fileTurn = 50 * time.Millisecond
)

// fileQueue has the long files that are sent on one connection read in turns, by urgency, and within an urgency in
// the order in which they came. What was read is then still in the processor's cache when it is sent; pieces of
// files that are all read at once wait for each other first.
type fileQueue struct {
	mu      sync.Mutex
	reader  *queuedFile   // the file that has its turn; nil: none
	waiting []*queuedFile // in the order of their turns
	turns   int           // how many there have been
	seen    int           // turns when watch looked last
	timer   *time.Timer   // runs watch while files wait; nil: none has waited
}

// queuedFile is a long file that a response sends. One goroutine uses it.
type queuedFile struct {
	queue    *fileQueue
	urgency  uint8
	piece    int           // how many bytes to read at a time in this turn
	n        int           // how many bytes were asked for in this turn
	admitted chan struct{} // receives when its turn has come; nil: it has never waited
}

// next waits for the file's turn and returns how many bytes to read. A file of an incremental stream takes no turns:
// such streams are sent a little at a time, all at once.
func (f *queuedFile) next(p h2.Priority) int {
	if p.Incremental {
		f.leave()
		return pieceSize
	}
	q := f.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	f.urgency = p.Urgency
	if q.reader == nil {
		q.admit(f, filePiece)
	}
	if q.reader != f || f.over() {
		q.wait(f)
	}
	f.n += f.piece
	return f.piece
}

// over reports whether the turn of f is over. queue.mu is held.
func (f *queuedFile) over() bool {
	waiting := f.queue.waiting
	return len(waiting) > 0 && (f.n >= fileShare || waiting[0].urgency < f.urgency)
}

// wait waits for the turn of f. q.mu is held, but not throughout.
func (q *fileQueue) wait(f *queuedFile) {
	if f.admitted == nil {
		f.admitted = make(chan struct{}, 1)
	}
	i := slices.IndexFunc(q.waiting, func(g *queuedFile) bool { return g.urgency > f.urgency })
	if i < 0 {
		i = len(q.waiting)
	}
	q.waiting = slices.Insert(q.waiting, i, f)
	if q.reader == f {
		q.admitNext(filePiece)
	}
	if len(q.waiting) == 1 {
		q.watchLater()
	}
	q.mu.Unlock()
	<-f.admitted
	q.mu.Lock()
}

// watchLater has watch run. q.mu is held.
func (q *fileQueue) watchLater() {
	q.seen = q.turns
	if q.timer == nil {
		q.timer = time.AfterFunc(fileTurn, q.watch)
		return
	}
	q.timer.Reset(fileTurn)
}

// watch ends a turn that it has seen before. That file waits before it is read on.
func (q *fileQueue) watch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return
	}
	if q.turns == q.seen {
		q.admitNext(pieceSize) // two files have pieces now
	}
	if len(q.waiting) > 0 {
		q.watchLater()
	}
}

// admitNext gives the next file that waits its turn. q.mu is held.
func (q *fileQueue) admitNext(piece int) {
	q.reader = nil
	if len(q.waiting) > 0 {
		f := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.admit(f, piece)
		f.admitted <- struct{}{}
	}
}

// admit gives f its turn. q.mu is held.
func (q *fileQueue) admit(f *queuedFile, piece int) {
	q.turns++
	q.reader, f.n, f.piece = f, 0, piece
}

// leave ends the turn of f.
func (f *queuedFile) leave() {
	q := f.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader == f {
		q.admitNext(filePiece)
	}
}

// queuedFile returns src, if it is a long file or a part of one, for the queue of w's connection; otherwise nil.
func (w *responseWriter) queuedFile(src io.Reader) *queuedFile {
	if !isLongFile(src) {
		return nil
	}
	return &queuedFile{queue: w.x.conn.fileQueue()}
}

// isLongFile reports whether src is a regular file, or a part of one, that may have more than pieceSize bytes left.
func isLongFile(src io.Reader) bool {
	if l, ok := src.(*io.LimitedReader); ok {
		if l.N <= pieceSize {
			return false
		}
		src = l.R
	}
	f, ok := src.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode().IsRegular() && st.Size() > pieceSize
}
