package refs

// This file applies the effects of a call to the references in its arguments.

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// free ends references.
func (f *function) free(s *state, b binding, pos token.Pos) {
	for _, r := range b.refs {
		l := s.lives[r]
		switch l.st {
		case held, foreign, lent:
			if !f.mayEnd(s, r, l, pos, "freed") {
				continue
			}
			if l.kept.by != noKeeper {
				f.report(s, report.Escape, r, l.kept.pos, l.kept.in)
			}
			s.lives[r] = life{st: freed, pos: pos, with: l.with, changes: l.changes, deferer: f.deferring}
			f.unshare(s, r)
		case void:
			if r.kind == kinds.Handle && l.by == byLength { // it may be a reference, which ends
				s.lives[r] = life{st: freed, pos: pos, by: byLength, deferer: f.deferring}
			}
		case unknown:
			if r.kind == kinds.Handle && l.key == nil && !l.several {
				s.lives[r] = life{st: freed, pos: pos, deferer: f.deferring}
			}
		}
	}
}

// give moves references to another owner.
func (f *function) give(s *state, b binding, pos token.Pos, to string) {
	for _, r := range b.refs {
		l := s.lives[r]
		switch l.st {
		case held, foreign, lent:
			if !f.mayEnd(s, r, l, pos, to) {
				continue
			}
			s.lives[r] = life{st: given, pos: pos, by: to, with: l.with, changes: l.changes}
		}
	}
}

// mayEnd returns whether a live reference can be followed to its end, which frees it or gives it away. Otherwise it is
// not followed further; that a lent one ends here is reported.
func (f *function) mayEnd(s *state, r *ref, l life, pos token.Pos, to string) bool {
	switch {
	case l.key != nil && l.alt != void:
		s.forget(r)
		return false
	case l.st == lent:
		f.reportLent(s, r, l, pos, to)
		return false
	}
	return true
}

// reportLent reports that a reference is freed or given away that this function does not own.
func (f *function) reportLent(s *state, r *ref, l life, pos token.Pos, to string) {
	if l.by == whenTestEnds {
		f.report(s, report.Double, r, pos, to)
	} else {
		f.report(s, report.Contract, r, pos, to)
	}
	s.forget(r)
}

// mayReturn records that references were given to a goroutine that may return them.
func (f *function) mayReturn(s *state, b binding) {
	for _, r := range b.refs {
		if l := s.lives[r]; l.st == given {
			l.sent = true
			s.lives[r] = l
		}
	}
}

// found records that a reference of unknown origin exists: its content was used.
func (f *function) found(s *state, b binding) {
	if b.part || len(b.refs) != 1 || b.refs[0].kind != kinds.Handle {
		return
	}
	if l := s.lives[b.refs[0]]; l.st == foreign {
		l.alive = true
		s.lives[b.refs[0]] = l
	}
}

// unshare records that r shares memory with no other ref any more.
func (f *function) unshare(s *state, r *ref) {
	for o, l := range s.lives {
		if i := slices.Index(l.with, r.id); i >= 0 {
			l.with = slices.Delete(slices.Clone(l.with), i, i+1)
			s.lives[o] = l
		}
	}
}

// giveIf moves references if the call succeeded, which a later condition decides.
func (f *function) giveIf(s *state, b binding, p contracts.Param, v ssa.Value, pos token.Pos, to string) {
	key, ok := f.outcome(v, p.When, p.At)
	for _, r := range b.refs {
		l := s.lives[r]
		if l.st != held && l.st != foreign && l.st != lent {
			continue
		}
		if !ok && l.key == nil && p.When == contracts.IfTrue { // a caller that ignores the result relies on it
			s.lives[r] = life{st: given, pos: pos, by: to, with: l.with}
			continue
		}
		if !ok || l.key != nil {
			s.forget(r)
			continue
		}
		alt := l.st
		if p.When == contracts.IfFalse {
			s.lives[r] = life{st: l.st, pos: pos, by: to, key: key, alt: given, with: l.with}
			continue
		}
		s.lives[r] = life{st: given, pos: pos, by: to, key: key, alt: alt, with: l.with}
		s.unlearn(key)
	}
}

// fill puts something into a container.
func (f *function) fill(s *state, b binding, pos token.Pos) {
	f.notMoved(s, b, pos)
	for _, r := range b.refs {
		switch l := s.lives[r]; l.st {
		case foreign, lent:
			l.filled = true
			s.lives[r] = l
		case void, freed:
			if r.kind == kinds.Container && (r.site == nil || r.param >= 0) {
				s.lives[r] = life{st: foreign, changes: l.changes}
			} else if r.kind == kinds.Container {
				s.lives[r] = life{st: held, pos: pos, changes: l.changes}
			}
		}
	}
}

// outlet handles a pointer to a variable passed to a function that may store a reference there.
func (f *function) outlet(s *state, c *ssa.CallCommon, v, a ssa.Value, p contracts.Param, pos token.Pos) {
	at, ok := f.placeOf(a)
	leaf, only := places.Path{}, false
	if ok {
		leaf, only = f.kinds.OnlyLeaf(at.Type())
	}
	if p.Effect != contracts.FillLeaf || !only || !at.Local() || s.escaped[at.Root] {
		if ok {
			f.giveAway(s, s.Mem[at])
		}
		f.escapePointer(s, a)
		return
	}
	in := at.Join(leaf)
	r := f.refAt(refKey{v: at.Root, from: fromOutlet, path: in.Path}, f.kinds.Of(in.Type()), pos)
	r.site, r.field = at.Root, f.nameOf(in)
	l := life{st: held, pos: pos}
	if out := contracts.Outcomes(c.Signature()); len(out) > 0 && s.lives[r].st != held {
		key, ok := f.outcome(v, out[0].When, out[0].At)
		if !ok {
			f.escapePointer(s, a)
			return
		}
		l.key, l.alt = key, void
		s.unlearn(key)
	}
	s.Remove(func(q places.Place) bool { return q.Within(at) })
	s.lives[r] = l
	s.Mem[in] = binding{refs: []*ref{r}}
}

// perhaps makes a fill depend on the error of the function that filled: with an error there may be no
// reference. An error that is ignored is taken to be nil.
func (f *function) perhaps(s *state, fn *types.Func, b binding, v ssa.Value, pos token.Pos) {
	for _, r := range b.refs {
		l := s.lives[r]
		if r.kind != kinds.Container || l.st != held || l.pos != pos {
			continue
		}
		out := contracts.Outcomes(fn.Signature())
		if len(out) == 0 {
			continue
		}
		key, ok := f.outcome(v, out[0].When, out[0].At)
		if !ok {
			if out[0].When != contracts.IfNil {
				s.forget(r)
			}
			continue
		}
		s.unlearn(key)
		l.key, l.alt = key, void
		s.lives[r] = l
	}
}

// empty handles a call that takes the references to which a pointer leads.
func (f *function) empty(s *state, b binding, p contracts.Param, v ssa.Value, pos token.Pos) {
	p.Effect = contracts.Drop
	f.drained(s, b, p, v, pos)
}

// drained removes some bytes from a container, or all.
func (f *function) drained(s *state, b binding, p contracts.Param, v ssa.Value, pos token.Pos) {
	f.notMoved(s, b, pos)
	for _, r := range b.refs {
		l := s.lives[r]
		if l.st == unknown || l.st == given {
			continue
		}
		if p.Effect == contracts.Drop || p.Effect == contracts.Drain {
			l.changes++
		}
		switch {
		case p.Effect == contracts.Drain:
			// The remaining length is not tracked.
			if l.st != held {
				break
			}
			l.st = unknown
			if key, ok := f.outcome(v, p.When, p.At); ok && p.When == contracts.IfNil && l.key == nil {
				l.key, l.alt = key, held
				s.unlearn(key)
			}
		case p.When == contracts.IfNil:
			key, ok := f.outcome(v, p.When, p.At)
			if !ok || l.key != nil || l.st != held {
				l = life{st: min(l.st, unknown), changes: l.changes}
				break
			}
			l = life{st: void, pos: l.pos, key: key, alt: held, changes: l.changes}
		case r.kind == kinds.Handle && r.taken == "": // a struct is left empty
			l = life{st: freed, pos: pos, changes: l.changes, deferer: f.deferring}
		default:
			l = life{st: void, changes: l.changes, emptied: true}
		}
		s.lives[r] = l
	}
}

// notMoved reports a container that is used after it was copied by value.
func (f *function) notMoved(s *state, b binding, pos token.Pos) {
	for _, r := range b.refs {
		if l := s.lives[r]; l.by == copiedBy {
			f.report(s, report.Copy, r, pos, "")
			s.forget(r)
		}
	}
}
