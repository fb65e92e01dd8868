package pools

import (
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// An Object is pooled memory, or anything else to which a function has a reference. It is named by the value by which
// the function first had it; in a loop there are two, of this iteration and of the one before.
type Object struct {
	id    int
	value ssa.Value
	from  places.Place // where the function found it, if it was loaded
	found bool         // from is set
}

// Mode says how a value leads to an object.
type Mode uint8

const (
	Self   Mode = iota // it is the reference
	View               // bytes of it, or a pointer into it
	Inside             // something that contains one of these
)

// A Ref is one object to which a value leads.
type Ref struct {
	Of    *Object
	Mode  Mode
	epoch int          // of the object, when the view was taken
	from  places.Place // of a view that was read from a field of the object: that field
}

// Binding is the objects to which a value leads. It is not changed.
type Binding []Ref

func (b Binding) with(mode Mode) Binding {
	out := slices.Clone(b)
	for i := range out {
		if mode == Inside || out[i].Mode == Self {
			out[i].Mode = mode
		}
	}
	return out
}

// most bounds the objects of one binding.
const most = 8

func (b Binding) join(o Binding) Binding {
	for _, r := range o {
		if len(b) < most && !slices.Contains(b, r) {
			b = append(slices.Clip(b), r)
		}
	}
	return b
}

// status is what is known of an object.
type status struct {
	ended    token.Pos // where its reference was given up; NoPos while it is valid
	by       string    // the call that did so
	deferred token.Pos // the defer statement whose call did so
	extra    int       // references that the function added
	epoch    int       // how often its views ended
	stale    token.Pos // where its views last ended
	staleBy  string
	kept     custody
}

// custody is where a reference was stored that outlives the function.
type custody struct {
	pos  token.Pos
	at   places.Place
	how  string // "stored in c.buf"
	wait bool   // a goroutine has it, which may have finished when this one has waited
}

// remains reports whether a reference was given up while memory that outlives the function leads to it. The memory may
// be overwritten afterwards.
func (st status) remains() bool { return st.ended.IsValid() && st.kept.pos.IsValid() }

// slot names a value; index is a result of several, or -1.
type slot struct {
	v     ssa.Value
	index int
}

// step is one decision of a path, newest first.
type step struct {
	cond  ssa.Value
	taken bool
	prev  *step
}

// pending is a deferred call with its arguments.
type pending struct {
	call *ssa.Defer
	args []Binding
}

// state is what is known at one point of one path.
type state struct {
	objs   map[*Object]status
	vals   map[slot]Binding
	mem    map[places.Place]Binding
	loads  map[places.Place]ssa.Value // a value loaded from the place that is still there
	same   map[ssa.Value]ssa.Value
	facts  map[*conditions.Condition]bool
	gen    map[ssa.Value]int
	defers []pending
	trail  *step
}

func newState() *state {
	return &state{
		objs: map[*Object]status{}, vals: map[slot]Binding{}, mem: map[places.Place]Binding{}, loads: map[places.Place]ssa.Value{},
		same: map[ssa.Value]ssa.Value{}, facts: map[*conditions.Condition]bool{}, gen: map[ssa.Value]int{},
	}
}

func (s *state) clone() *state {
	return &state{
		objs: maps.Clone(s.objs), vals: maps.Clone(s.vals), mem: maps.Clone(s.mem), loads: maps.Clone(s.loads),
		same: maps.Clone(s.same), facts: maps.Clone(s.facts), gen: maps.Clone(s.gen),
		defers: slices.Clip(s.defers), trail: s.trail,
	}
}

// key identifies the state, without the path that led to it.
func (s *state) key(number func(ssa.Value) int) string {
	var parts []string
	n := func(v ssa.Value) string { return strconv.Itoa(number(v)) }
	place := func(p places.Place) string { return n(p.Root) + p.Path.Key() }
	binding := func(b Binding) string {
		var t strings.Builder
		for _, r := range b {
			t.WriteString("=" + strconv.Itoa(r.Of.id) + "." + strconv.Itoa(int(r.Mode)) + "." + strconv.Itoa(r.epoch))
		}
		return t.String()
	}
	for o, st := range s.objs {
		parts = append(parts, "o"+strconv.Itoa(o.id)+","+strconv.Itoa(int(st.ended))+","+strconv.Itoa(st.extra)+","+strconv.Itoa(st.epoch)+","+strconv.Itoa(int(st.kept.pos)))
	}
	for v, b := range s.vals {
		parts = append(parts, "v"+n(v.v)+"/"+strconv.Itoa(v.index)+binding(b))
	}
	for p, b := range s.mem {
		parts = append(parts, "m"+place(p)+binding(b))
	}
	for v, w := range s.same {
		parts = append(parts, "s"+n(v)+"="+n(w))
	}
	for p, v := range s.loads {
		parts = append(parts, "l"+place(p)+"="+n(v))
	}
	for v, g := range s.gen {
		parts = append(parts, "g"+n(v)+"="+strconv.Itoa(g))
	}
	for c, v := range s.facts {
		parts = append(parts, "f"+strconv.Itoa(c.ID())+strconv.FormatBool(v))
	}
	slices.Sort(parts)
	for _, d := range s.defers {
		parts = append(parts, "d"+strconv.Itoa(int(d.call.Pos())))
	}
	return strings.Join(parts, ";")
}

// original is the value that v is known to repeat: an earlier load of the same place.
func (s *state) original(v ssa.Value) ssa.Value {
	if w, ok := s.same[v]; ok {
		return w
	}
	return v
}

// path is the decisions that led here, oldest first.
func (s *state) path() []step {
	var steps []step
	for p := s.trail; p != nil; p = p.prev {
		steps = append(steps, *p)
	}
	slices.Reverse(steps)
	return steps
}

// bound reports whether anything leads to an object.
func (s *state) bound(o *Object) bool {
	has := func(b Binding) bool { return slices.ContainsFunc(b, func(r Ref) bool { return r.Of == o }) }
	for _, b := range s.vals {
		if has(b) {
			return true
		}
	}
	for _, b := range s.mem {
		if has(b) {
			return true
		}
	}
	for _, d := range s.defers {
		if slices.ContainsFunc(d.args, has) {
			return true
		}
	}
	return false
}

// detach drops what matches from every binding.
func (s *state) detach(match func(Ref) bool) {
	drop := func(b Binding) (Binding, bool) {
		if !slices.ContainsFunc(b, match) {
			return b, false
		}
		return slices.DeleteFunc(slices.Clone(b), match), true
	}
	for v, b := range s.vals {
		if now, changed := drop(b); changed {
			s.vals[v] = now
		}
	}
	for p, b := range s.mem {
		if now, changed := drop(b); changed {
			s.mem[p] = now
		}
	}
	for i, d := range s.defers {
		for j, b := range d.args {
			if now, changed := drop(b); changed {
				s.defers = slices.Clone(s.defers)
				d.args = slices.Clone(d.args)
				d.args[j] = now
				s.defers[i] = d
			}
		}
	}
}
