package slab

import (
	"slices"
	"sync/atomic"
	"testing"
)

// This file explores small models of the state word exhaustively: every sequence of operations up to a
// length on the real code, and every interleaving of the atomic steps of several goroutines.

// A holding is the references that live, in a certain state of their slab.
type holding struct {
	state uint64
	live  []Key
}

// outcome runs one operation and reports whether it panicked.
func outcome(f func()) (caught bool) {
	defer func() { caught = recover() != nil }()
	f()
	return false
}

// No sequence of correct operations panics or ends the slab early, and the last Free always ends it.
// Freeing a reference again is caught in every state that was reached by Frees in order.
func TestEverySequence(t *testing.T) {
	depth := 9
	if testing.Short() {
		depth = 7
	}
	d := testDepot(t, Config{Classes: []int{64}})
	s, key := d.Get(1)
	type visited struct {
		state uint64
		live  [6]Key
	}
	seen := map[visited]bool{}
	var steps, doubles, caught, ordered int
	var explore func(h holding, depth int)
	visit := func(live []Key, depth int) {
		st := atomic.LoadUint64(&s.state)
		total := uint64(0)
		for _, k := range live {
			total += k.weight()
			if spent(st, k) {
				t.Fatalf("state %#x: the live key %#x counts as spent", st, k)
			}
		}
		if total != count(st) {
			t.Fatalf("state %#x: the weights are %d", st, total)
		}
		slices.Sort(live)
		v := visited{state: st}
		copy(v.live[:], live)
		if depth > 0 && !seen[v] {
			seen[v] = true
			explore(holding{st, live}, depth)
		}
	}
	explore = func(h holding, depth int) {
		try := func(f func() []Key) {
			steps++
			atomic.StoreUint64(&s.state, h.state)
			var live []Key
			if outcome(func() { live = f() }) {
				t.Fatalf("state %#x: an operation on %#x panicked", h.state, h.live)
			}
			visit(live, depth-1)
		}
		for i, k := range h.live {
			others := slices.Delete(slices.Clone(h.live), i, i+1)
			if len(h.live) < 6 {
				try(func() []Key { return append(others[:len(others):len(others)], k, s.Ref(k, "Ref", 1)) })
				try(func() []Key {
					a, b := s.Split(k, 1, 1)
					return append(others[:len(others):len(others)], a, b)
				})
			}
			for j, next := range others {
				try(func() []Key {
					rest := slices.Delete(slices.Clone(others), j, j+1)
					return append(rest, s.Join(k, next, 1))
				})
			}
			steps++
			atomic.StoreUint64(&s.state, h.state)
			if outcome(func() { s.Free(k) }) {
				t.Fatalf("state %#x: Free of %#x of %#x panicked", h.state, k, h.live)
			}
			after := atomic.LoadUint64(&s.state)
			if len(others) == 0 {
				if after != nextGeneration(h.state) {
					t.Fatalf("state %#x after the last Free of %#x", after, h.state)
				}
				d.classes[64].idle.Get() // the test owns the slab again
				if !outcome(func() { s.Free(k) }) {
					t.Fatalf("a second Free of the last reference, %#x, is not caught", k)
				}
				continue
			}
			if !current(after, k) {
				t.Fatalf("state %#x: the slab ended while %#x live", after, others)
			}
			doubles++
			again := outcome(func() { s.Free(k) })
			if again {
				caught++
			} else {
				d.classes[64].idle.Get() // it may have ended
			}
			if after&unordered == 0 {
				ordered++
				if !again && uint64(k)&predicted != 0 {
					t.Fatalf("state %#x: a second Free of %#x is not caught", after, k)
				}
			}
			atomic.StoreUint64(&s.state, after)
			visit(others, depth-1)
		}
	}
	visit([]Key{key}, depth)
	t.Logf("%d states, %d operations; %d of %d second Frees are caught at once (%d after Frees in order)", len(seen), steps, caught, doubles, ordered)
}

// A step of the model is one atomic operation of a goroutine.
type op struct {
	kind     opKind
	ref, new int // indices in the goroutine's references
}

type opKind int

const (
	opRef opKind = iota
	opSplit
	opFree
)

const modelRefs = 3

// thread is a goroutine between two atomic steps. It is comparable, to be remembered.
type thread struct {
	program int
	at      int  // the operation
	loaded  bool // its loop has loaded the word
	tried   bool // its first compare-and-swap has failed
	word    uint64
	refs    [modelRefs]Key
}

// model is a slab's word and the goroutines that work on it.
type model struct {
	state   uint64
	threads [3]thread
}

// step makes the goroutine's next atomic operation; last says that it ended the slab.
func (m *model) step(t *testing.T, programs [][]op, i int) (last bool) {
	th := &m.threads[i]
	o := programs[th.program][th.at]
	key := th.refs[o.ref]
	done := func() {
		th.at++
		th.loaded, th.tried, th.word = false, false, 0
	}
	if o.kind == opSplit {
		if !key.Divisible() || !current(m.state, key) {
			t.Fatalf("%#x cannot be split in %#x", key, m.state)
		}
		th.refs[o.new], th.refs[o.ref] = key.Divide()
		done()
		return false
	}
	if !th.tried { // the compare-and-swap with a predicted word
		th.tried = true
		switch expected := uint64(key) | ordinary; {
		case o.kind == opRef && m.state == expected:
			m.state++
			th.refs[o.new] = Key(expected + 1)
			done()
			return false
		case o.kind == opFree && uint64(key)&predicted != 0 && m.state == uint64(key):
			m.state--
			done()
			return false
		case o.kind == opFree && uint64(key)&special == 0 && m.state == expected:
			m.state = nextGeneration(m.state)
			done()
			return true
		}
		return false
	}
	if !th.loaded {
		th.loaded, th.word = true, m.state
		return false
	}
	th.loaded = false
	if o.kind == opRef {
		next, ok := retained(th.word, key, 1)
		if !ok {
			t.Fatalf("Ref of %#x fails in %#x", key, th.word)
		}
		if m.state == th.word {
			m.state = next
			th.refs[o.new] = Key(next&(genMask|countMask) | predicted)
			done()
		}
		return false
	}
	next, outcome := released(th.word, key, key.weight())
	if outcome == droppedStale {
		t.Fatalf("Free of %#x is stale in %#x", key, th.word)
	}
	if m.state == th.word {
		m.state = next
		done()
		return outcome != droppedOne
	}
	th.word = 0
	return false
}

// Three goroutines that reference, split and free at once end the slab exactly once, whatever the
// interleaving of their atomic steps, and no correct Free is taken for a second one.
func TestEveryInterleaving(t *testing.T) {
	programs := [][]op{
		{{opFree, 0, 0}},
		{{opRef, 0, 1}, {opFree, 0, 0}, {opFree, 1, 0}},
		{{opRef, 0, 1}, {opFree, 1, 0}, {opFree, 0, 0}},
		{{opRef, 0, 1}, {opRef, 1, 2}, {opFree, 0, 0}, {opFree, 2, 0}, {opFree, 1, 0}},
	}
	split := [][]op{ // for the reference of Get, which can be divided
		{{opSplit, 0, 1}, {opFree, 1, 0}, {opFree, 0, 0}},
		{{opSplit, 0, 1}, {opFree, 0, 0}, {opFree, 1, 0}},
		{{opSplit, 0, 1}, {opRef, 1, 2}, {opFree, 1, 0}, {opFree, 2, 0}, {opFree, 0, 0}},
	}
	all := append(slices.Clone(programs), split...)
	if testing.Short() || raceEnabled {
		programs = programs[:2]
	}
	states, interleavings := 0, 0.0
	for first := range all {
		for second := range min(len(programs), 3) {
			for third := range min(second+1, 2) {
				for _, pending := range []uint64{0, ordinary} {
					const gen = 7 << genShift
					root := Key(gen | getWeight)
					light := Key(gen|predicted|getWeight) + 1
					m := model{state: gen | pending | (getWeight + 2)}
					m.threads[0] = thread{program: first, refs: [modelRefs]Key{root}}
					m.threads[1] = thread{program: second, refs: [modelRefs]Key{light}}
					m.threads[2] = thread{program: third, refs: [modelRefs]Key{light + 1}}
					n, paths := exploreModel(t, all, m)
					states += n
					interleavings += paths
				}
			}
		}
	}
	if interleavings < 1e6 {
		t.Errorf("only %.0f interleavings", interleavings)
	}
	t.Logf("%d states, %.3g interleavings", states, interleavings)
}

// exploreModel visits every state that is reachable from m, and counts the ways to the end.
func exploreModel(t *testing.T, programs [][]op, m model) (states int, paths float64) {
	type place struct {
		model
		ended bool
	}
	known := map[place]float64{}
	var visit func(p place) float64
	visit = func(p place) float64 {
		if n, ok := known[p]; ok {
			return n
		}
		known[p] = 0 // a loop that failed comes back to a state with more work done, never to this one
		total, moved := 0.0, false
		for i := range p.threads {
			if p.threads[i].at == len(programs[p.threads[i].program]) {
				continue
			}
			moved = true
			next := p
			if next.step(t, programs, i) {
				if next.ended {
					t.Fatal("the slab ended twice")
				}
				next.ended = true
			}
			total += visit(next)
		}
		if !moved {
			if !p.ended || count(p.state) != 0 || generation(p.state) != 8 {
				t.Fatalf("all references are freed, and the state is %#x", p.state)
			}
			total = 1
		}
		known[p] = total
		return total
	}
	paths = visit(place{model: m})
	return len(known), paths
}
