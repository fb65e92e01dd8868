package h2

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive is the model of scheduler: what it says in its comment, with slices that are searched.
type naive struct {
	levels [urgencies]struct {
		turns, ordered []*waiting
		resumes        *waiting
		orderedNext    bool
	}
	turn map[*waiting]int   // bytes sent in it
	size map[*waiting]int64 // when it came
	long int
}

// turnOf is how many bytes a turn has.
func (q *naive) turnOf(urgency int) int {
	l := &q.levels[urgency]
	for _, w := range slices.Concat(l.turns, l.ordered) {
		if q.size[w] < longTurn {
			return turnBytes
		}
	}
	return max(q.long, turnBytes)
}

func (q *naive) add(w *waiting, n int64, p Priority) {
	l := &q.levels[p.Urgency]
	q.turn[w], q.size[w] = 0, n
	switch {
	case p.Incremental:
		l.turns = append(l.turns, w)
	case l.resumes == w:
		l.ordered = append([]*waiting{w}, l.ordered...)
	default:
		l.ordered = append(l.ordered, w)
	}
}

func (q *naive) remove(w *waiting) {
	for i := range q.levels {
		l := &q.levels[i]
		is := func(x *waiting) bool { return x == w }
		l.turns, l.ordered = slices.DeleteFunc(l.turns, is), slices.DeleteFunc(l.ordered, is)
	}
}

func (q *naive) forget(w *waiting) {
	q.remove(w)
	for i := range q.levels {
		if l := &q.levels[i]; l.resumes == w {
			l.resumes = nil
		}
	}
}

func (q *naive) next() (*waiting, int) {
	for i := range q.levels {
		l := &q.levels[i]
		var w *waiting
		switch {
		case len(l.turns)+len(l.ordered) == 0:
			continue
		case len(l.turns) == 0 || len(l.ordered) > 0 && l.orderedNext:
			w = l.ordered[0]
		default:
			w = l.turns[0]
		}
		if len(l.turns)+len(l.ordered) == 1 {
			return w, maxWindow
		}
		if n := q.turnOf(i) - q.turn[w]; n > 0 {
			return w, n
		}
		return w, turnBytes
	}
	return nil, 0
}

func (q *naive) served(w *waiting, n int) {
	for i := range q.levels {
		l := &q.levels[i]
		turns, ordered := slices.Contains(l.turns, w), slices.Contains(l.ordered, w)
		if !turns && !ordered {
			continue
		}
		if ordered {
			l.resumes = w
		}
		if q.turn[w] += n; q.turn[w] < q.turnOf(i) {
			return
		}
		q.turn[w] = 0
		if l.orderedNext = turns; turns {
			q.remove(w)
			l.turns = append(l.turns, w)
		}
		return
	}
}

// TestSchedulerModel makes the same random changes in a scheduler and in its model. After each the same Write is next.
func TestSchedulerModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		q, m := new(scheduler), &naive{turn: map[*waiting]int{}, size: map[*waiting]int64{}}
		all := make([]*waiting, 1+r.IntN(12))
		for i := range all {
			all[i] = new(waiting)
		}
		var log []string
		for range 300 {
			w := all[r.IntN(len(all))]
			switch n := r.IntN(10); {
			case n < 3 && w.in == nil:
				p := Priority{uint8(3 + r.IntN(3)*r.IntN(2)), r.IntN(2) == 0}
				size := longTurn - 1 + int64(min(1, r.IntN(4)))
				q.add(w, size, p)
				m.add(w, size, p)
				log = append(log, fmt.Sprintf("add %p %v of %d", w, p, size))
			case n == 5 && r.IntN(4) == 0:
				m.long = longTurn * r.IntN(2)
				q.allow(m.long)
				log = append(log, fmt.Sprintf("allow %d", m.long))
			case n == 3:
				q.remove(w)
				m.remove(w)
				log = append(log, fmt.Sprintf("remove %p", w))
			case n == 4:
				q.forget(w)
				m.forget(w)
				log = append(log, fmt.Sprintf("forget %p", w))
			default:
				w, most := q.next()
				if w == nil {
					break
				}
				n := 1 + r.IntN(min(most, 2*turnBytes))
				q.served(w, n)
				m.served(w, n)
				log = append(log, fmt.Sprintf("serve %d of %p", n, w))
			}
			w, most := q.next()
			if want, wantMost := m.next(); w != want || most != wantMost || q.empty() != (w == nil) {
				t.Fatalf("seed %d: %p and %d bytes are next, not %p and %d, after %q", seed, w, most, want, wantMost, log[max(0, len(log)-10):])
			}
		}
	}
}

// TestSchedulerForgets: a Write whose stream has ended has no place of its own any more, whatever urgencies the stream had.
func TestSchedulerForgets(t *testing.T) {
	q, a, b := new(scheduler), new(waiting), new(waiting)
	q.add(a, fairLong, Priority{Urgency: 3})
	q.served(a, 1)
	q.remove(a)
	q.add(a, fairLong, Priority{Urgency: 4})
	q.forget(a)
	q.add(b, fairLong, Priority{Urgency: 3})
	q.add(a, fairLong, Priority{Urgency: 3}) // of another stream
	if w, _ := q.next(); w != b {
		t.Error("it is served before one that has waited longer")
	}
}

// TestLongTurns: where the peer is near and fast, turns are long while all Writes are; a short one waits for one turn of turnBytes, and for
// what is left of the turn that has begun, which is no more.
func TestLongTurns(t *testing.T) {
	q, a, b, c := new(scheduler), new(waiting), new(waiting), new(waiting)
	incremental := Priority{Urgency: 3, Incremental: true}
	q.allow(longTurn)
	for _, w := range []*waiting{a, b} {
		q.add(w, longTurn, incremental)
	}
	if w, most := q.next(); w != a || most != longTurn {
		t.Errorf("%d bytes are next", most)
	}
	q.served(a, 2*turnBytes)
	q.add(c, longTurn-1, incremental)
	for _, want := range []*waiting{a, b, c} {
		w, most := q.next()
		if w != want || most != turnBytes {
			t.Errorf("%d bytes are next", most)
		}
		q.served(w, most)
	}
	q.remove(c)
	if _, most := q.next(); most != longTurn {
		t.Errorf("%d bytes are next when the short one has gone", most)
	}
}

// TestSchedulerFair: of many streams with DATA of any length, none is more than a turn behind another, and a Write that is added waits
// for one turn of each of the others.
func TestSchedulerFair(t *testing.T) {
	const streams = 100
	r := rand.New(rand.NewPCG(1, 1))
	q := new(scheduler)
	q.allow(longTurn)
	sent := map[*waiting]int{}
	for range streams {
		w := new(waiting)
		sent[w] = 0
		q.add(w, fairLong, signals.initial(unsignalled))
	}
	serve := func() *waiting {
		w, most := q.next()
		n := 1 + r.IntN(most)
		q.served(w, n)
		sent[w] += n
		return w
	}
	for range 100_000 {
		serve()
		least, most := maxWindow, 0
		for _, n := range sent {
			least, most = min(least, n), max(most, n)
		}
		if most-least > longTurn {
			t.Fatalf("one stream has sent %d bytes, another %d", least, most)
		}
	}
	before := 0
	for _, n := range sent {
		before += n
	}
	late := new(waiting)
	q.add(late, 100, signals.initial(unsignalled))
	for serve() != late {
	}
	after := 0
	for _, n := range sent {
		after += n
	}
	if after-before > (streams+1)*turnBytes { // late is short
		t.Errorf("it has waited for %d bytes", after-before)
	}
}

// TestSchedulerAllocations: changes take no memory.
func TestSchedulerAllocations(t *testing.T) {
	q, a, b := new(scheduler), new(waiting), new(waiting)
	if n := testing.AllocsPerRun(100, func() {
		q.add(a, 1, Priority{3, true})
		q.add(b, 1, Priority{3, false})
		w, _ := q.next()
		q.served(w, turnBytes)
		q.forget(a)
		q.remove(b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
