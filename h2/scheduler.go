package h2

import "math/bits"

const (
	urgencies = maxUrgency + 1
)

// scheduler orders the Writes whose DATA waits and whose windows are open: by urgency (RFC 9218), and within an urgency
// those of incremental streams in turns, those of other streams one after another. Where an urgency has both,
// the first of the others has every second turn. A turn has turnBytes, or as much as allow says while all Writes of the urgency are long.
// Every change takes constant time and no memory. A nil scheduler is empty.
// Guarded by Conn.mu.
type scheduler struct {
	levels [urgencies]level
	used   uint8 // bit u: levels[u] is not empty
	long   int   // bytes of a turn among Writes that are all long; 0: turnBytes
}

// level holds the Writes of one urgency.
type level struct {
	turns       list     // of incremental streams
	ordered     list     // of the others
	resumes     *waiting // of ordered, served last: when it waits again, it is the first
	orderedNext bool     // the next turn is the first of ordered's, if both have any
	shorts      int      // how many of both are short
}

// list is a list of Writes in the order in which they are served.
type list struct{ first, last *waiting }

// place is where a Write stands in a scheduler.
type place struct {
	in         *list // nil: it is in none
	urgency    uint8
	short      bool // less than longTurn waited when it came
	turn       int  // bytes sent in its turn
	next, prev *waiting
}

func (q *scheduler) empty() bool { return q == nil || q.used == 0 }

// allow has a turn have long bytes where no Write waits that has less than longTurn.
func (q *scheduler) allow(long int) {
	if q != nil {
		q.long = long
	}
}

// add puts w, which is in no list and has n bytes to send, behind the others of p's urgency and kind, or before them if it is of the stream that
// was served last of those that are sent one after another.
func (q *scheduler) add(w *waiting, n int64, p Priority) {
	l := &q.levels[p.Urgency]
	w.urgency, w.turn = p.Urgency, 0
	if w.short = n < longTurn; w.short {
		l.shorts++
	}
	q.used |= 1 << p.Urgency
	switch {
	case p.Incremental:
		l.turns.insert(l.turns.last, w)
	case l.resumes == w:
		l.ordered.insert(nil, w)
	default:
		l.ordered.insert(l.ordered.last, w)
	}
}

// remove takes w off its list, if it is in one.
func (q *scheduler) remove(w *waiting) {
	if w.in == nil {
		return
	}
	l := &q.levels[w.urgency]
	w.in.remove(w)
	if w.short {
		l.shorts--
	}
	if l.turns.first == nil && l.ordered.first == nil {
		q.used &^= 1 << w.urgency
	}
}

// forget is remove, and w is not the first of its urgency when it waits again: its stream has ended, or has another priority.
func (q *scheduler) forget(w *waiting) {
	if q == nil {
		return
	}
	q.remove(w)
	for i := range q.levels { // its priority may have changed since it was served last
		if l := &q.levels[i]; l.resumes == w {
			l.resumes = nil
		}
	}
}

// next returns the Write that is served next, and how many bytes may be sent before others are; nil: none waits.
func (q *scheduler) next() (w *waiting, most int) {
	if q.empty() {
		return nil, 0
	}
	l := &q.levels[bits.TrailingZeros8(q.used)]
	w = l.turns.first
	if w == nil || l.orderedNext && l.ordered.first != nil {
		w = l.ordered.first
	}
	if w.next == nil && (l.turns.first == nil || l.ordered.first == nil) {
		return w, maxWindow // alone
	}
	if most = q.turnOf(l) - w.turn; most <= 0 {
		most = turnBytes // turns were longer when it began
	}
	return w, most
}

// turnOf returns how many bytes a turn has.
func (q *scheduler) turnOf(l *level) int {
	if l.shorts > 0 {
		return turnBytes
	}
	return max(q.long, turnBytes)
}

// served says that n bytes of w, which next has returned, are sent. At the end of its turn the next one is served.
func (q *scheduler) served(w *waiting, n int) {
	l := &q.levels[w.urgency]
	if w.in == &l.ordered {
		l.resumes = w
	}
	if w.turn += n; w.turn < q.turnOf(l) {
		return
	}
	w.turn = 0
	l.orderedNext = w.in == &l.turns
	if l.orderedNext && w.next != nil {
		l.turns.remove(w)
		l.turns.insert(l.turns.last, w)
	}
}

// insert puts w behind prev; nil: at the beginning.
func (l *list) insert(prev, w *waiting) {
	next := l.first
	if prev != nil {
		next = prev.next
	}
	w.in = l
	l.link(prev, w)
	l.link(w, next)
}

func (l *list) remove(w *waiting) {
	l.link(w.prev, w.next)
	w.in, w.prev, w.next = nil, nil, nil
}

// link makes a and b neighbours; nil is the end of the list.
func (l *list) link(a, b *waiting) {
	if a == nil {
		l.first = b
	} else {
		a.next = b
	}
	if b == nil {
		l.last = a
	} else {
		b.prev = a
	}
}
