// Package flow follows the paths of a function. It has what both analyses know at a point of a path, and the search through the
// paths; what happens to a reference is the analyses' own.
package flow

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// A Slot names a value; Index is a result of a call that returns several, or -1.
type Slot struct {
	Value ssa.Value
	Index int
}

// Of is the slot of a value.
func Of(v ssa.Value) Slot { return Slot{v, -1} }

// A Deferred is a deferred call with what its arguments led to.
type Deferred[B any] struct {
	Call *ssa.Defer
	Args []B
}

// A State is what is known at one point of one path. B says what a value leads to; its values are not changed.
type State[B any] struct {
	Vals   map[Slot]B
	Mem    map[places.Place]B
	Facts  map[*conditions.Condition]bool
	Defers []Deferred[B]
	Trail  *Trail
}

// NewState returns the state in which nothing is known.
func NewState[B any]() State[B] {
	return State[B]{Vals: map[Slot]B{}, Mem: map[places.Place]B{}, Facts: map[*conditions.Condition]bool{}}
}

// Clone is a copy of the state.
func (s *State[B]) Clone() State[B] {
	return State[B]{maps.Clone(s.Vals), maps.Clone(s.Mem), maps.Clone(s.Facts), slices.Clip(s.Defers), s.Trail}
}

// Push adds a deferred call.
func (s *State[B]) Push(d Deferred[B]) { s.Defers = append(slices.Clip(s.Defers), d) }

// Pop removes the last deferred call; ok is false if there is none.
func (s *State[B]) Pop() (d Deferred[B], ok bool) {
	if len(s.Defers) == 0 {
		return d, false
	}
	d = s.Defers[len(s.Defers)-1]
	s.Defers = s.Defers[:len(s.Defers)-1]
	return d, true
}

// Size is the number of things that are known.
func (s *State[B]) Size() int { return len(s.Vals) + len(s.Mem) + len(s.Facts) + len(s.Defers) }

// All yields what is bound to values, to memory and to arguments of deferred calls.
func (s *State[B]) All() iter.Seq[B] {
	return func(yield func(B) bool) {
		for _, b := range s.Vals {
			if !yield(b) {
				return
			}
		}
		for _, b := range s.Mem {
			if !yield(b) {
				return
			}
		}
		for _, d := range s.Defers {
			for _, b := range d.Args {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// Change replaces what is bound to values, to memory and to arguments of deferred calls. change returns false if a binding stays
// as it is.
func (s *State[B]) Change(change func(B) (B, bool)) {
	for v, b := range s.Vals {
		if now, changed := change(b); changed {
			s.Vals[v] = now
		}
	}
	for p, b := range s.Mem {
		if now, changed := change(b); changed {
			s.Mem[p] = now
		}
	}
	own := false // other states may have the same list
	for i, d := range s.Defers {
		for j, b := range d.Args {
			now, changed := change(b)
			if !changed {
				continue
			}
			if !own {
				s.Defers, own = slices.Clone(s.Defers), true
			}
			args := slices.Clone(s.Defers[i].Args)
			args[j] = now
			s.Defers[i].Args = args
		}
	}
}

// Remove drops the memory that matches.
func (s *State[B]) Remove(match func(places.Place) bool) {
	for p := range s.Mem {
		if match(p) {
			delete(s.Mem, p)
		}
	}
}

// Key identifies the state, without the trail, among those of one function. number is the number of a value, and binding identifies a
// binding. rest identifies what the analysis knows beside that.
func (s *State[B]) Key(number func(ssa.Value) int, binding func(B) string, rest []string) string {
	parts := rest
	for v, b := range s.Vals {
		parts = append(parts, "v"+strconv.Itoa(number(v.Value))+"/"+strconv.Itoa(v.Index)+binding(b))
	}
	for p, b := range s.Mem {
		parts = append(parts, "p"+PlaceKey(p, number)+binding(b))
	}
	for c, v := range s.Facts {
		parts = append(parts, "f"+strconv.Itoa(c.ID())+strconv.FormatBool(v))
	}
	slices.Sort(parts)
	for _, d := range s.Defers {
		parts = append(parts, "d"+strconv.Itoa(int(d.Call.Pos())))
	}
	return strings.Join(parts, ";")
}

// PlaceKey identifies a place in keys.
func PlaceKey(p places.Place, number func(ssa.Value) int) string {
	return strconv.Itoa(number(p.Root)) + p.Path.Key()
}

// A Decision is the way that a path took at a branch.
type Decision struct {
	Branch *ssa.If
	Taken  bool // its condition was true
}

// A Trail is the decisions of a path, of which it is the last one.
type Trail struct {
	Decision
	before *Trail
}

// Then is the trail with another decision. The nil Trail has none.
func (t *Trail) Then(d Decision) *Trail { return &Trail{d, t} }

// Back yields the decisions, the newest first.
func (t *Trail) Back() iter.Seq[*Trail] {
	return func(yield func(*Trail) bool) {
		for ; t != nil; t = t.before {
			if !yield(t) {
				return
			}
		}
	}
}

// Steps are the decisions, the oldest first.
func (t *Trail) Steps() []*Trail {
	steps := slices.Collect(t.Back())
	slices.Reverse(steps)
	return steps
}

// A Search follows the paths of a function until no new state is found. S is the state of the analysis.
type Search[S any] struct {
	Visits int // of all blocks together; later paths are left out
	States int // of one block
	// Size is how much a state knows. What a visit costs grows with that, so that one with a large state counts as several.
	Size func(S) int
	// Prune drops what has no effect in a block or after it, so that paths merge.
	Prune func(*ssa.BasicBlock, S)
	// Key identifies a state.
	Key func(S) string
	// Run runs a block, and passes the blocks after it, the one to follow first last.
	Run func(b *ssa.BasicBlock, s S, next func(*ssa.BasicBlock, S))
}

// usualSize is more than states of most functions know.
const usualSize = 100

// From follows the paths that begin with a state, and returns false if some were left out.
func (search *Search[S]) From(fn *ssa.Function, start S) (whole bool) {
	if len(fn.Blocks) == 0 {
		return true
	}
	type visit struct {
		block *ssa.BasicBlock
		s     S
	}
	whole = true
	seen := make([]map[string]bool, len(fn.Blocks))
	visits := 0
	work := []visit{{fn.Blocks[0], start}}
	next := func(b *ssa.BasicBlock, s S) { work = append(work, visit{b, s}) }
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		at := seen[v.block.Index]
		if at == nil {
			at = map[string]bool{}
			seen[v.block.Index] = at
		}
		search.Prune(v.block, v.s)
		key := search.Key(v.s)
		if at[key] {
			continue
		}
		if len(at) >= search.States || visits >= search.Visits {
			whole = false
			continue
		}
		at[key] = true
		visits += 1 + search.Size(v.s)/usualSize
		search.Run(v.block, v.s, next)
	}
	return whole
}

// Phis are the phis of a block.
func Phis(b *ssa.BasicBlock) iter.Seq[*ssa.Phi] {
	return func(yield func(*ssa.Phi) bool) {
		for _, instr := range b.Instrs {
			phi, ok := instr.(*ssa.Phi)
			if !ok || !yield(phi) {
				return
			}
		}
	}
}

// Needs reports which values a block, or one after it, needs. live are the values that the blocks use, by their index.
func Needs(live []map[ssa.Value]bool, b *ssa.BasicBlock) func(ssa.Value) bool {
	at := live[b.Index]
	return func(v ssa.Value) bool {
		phi, ok := v.(*ssa.Phi)
		return at[v] || ok && phi.Block() == b
	}
}
