package pools

import (
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/flow"
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
	parted   bool // a part of it was retained: parts may outlive it
}

// custody is where a reference was stored that outlives the function.
type custody struct {
	pos  token.Pos
	at   places.Place
	from places.Place // of a view that was read from a field of the object, or from what a pointer to a slice leads to: that place
	how  string       // "stored in c.buf"
	wait bool         // a goroutine has it, which may have finished when this one has waited
}

// remains reports whether a reference was given up while memory that outlives the function leads to it. The memory may
// be overwritten afterwards.
func (st status) remains() bool { return st.ended.IsValid() && st.kept.pos.IsValid() }

// state is what is known at one point of one path.
type state struct {
	flow.State[Binding]
	objs  map[*Object]status
	loads map[places.Place]ssa.Value // a value loaded from the place that is still there
	same  map[ssa.Value]ssa.Value
	gen   map[ssa.Value]int
}

func newState() *state {
	return &state{
		State: flow.NewState[Binding](), objs: map[*Object]status{}, loads: map[places.Place]ssa.Value{},
		same: map[ssa.Value]ssa.Value{}, gen: map[ssa.Value]int{},
	}
}

func (s *state) clone() *state {
	return &state{
		State: s.Clone(), objs: maps.Clone(s.objs), loads: maps.Clone(s.loads), same: maps.Clone(s.same), gen: maps.Clone(s.gen),
	}
}

// key identifies the state, without the path that led to it.
func (s *state) key(number func(ssa.Value) int) string {
	var parts []string
	n := func(v ssa.Value) string { return strconv.Itoa(number(v)) }
	for o, st := range s.objs {
		parts = append(parts, "o"+strconv.Itoa(o.id)+","+strconv.Itoa(int(st.ended))+","+strconv.Itoa(st.extra)+","+strconv.Itoa(st.epoch)+","+strconv.Itoa(int(st.kept.pos))+","+strconv.FormatBool(st.parted))
	}
	for v, w := range s.same {
		parts = append(parts, "s"+n(v)+"="+n(w))
	}
	for p, v := range s.loads {
		parts = append(parts, "l"+flow.PlaceKey(p, number)+"="+n(v))
	}
	for v, g := range s.gen {
		parts = append(parts, "g"+n(v)+"="+strconv.Itoa(g))
	}
	return s.Key(number, Binding.key, parts)
}

func (b Binding) key() string {
	var t strings.Builder
	for _, r := range b {
		t.WriteString("=" + strconv.Itoa(r.Of.id) + "." + strconv.Itoa(int(r.Mode)) + "." + strconv.Itoa(r.epoch))
	}
	return t.String()
}

// original is the value that v is known to repeat: an earlier load of the same place.
func (s *state) original(v ssa.Value) ssa.Value {
	if w, ok := s.same[v]; ok {
		return w
	}
	return v
}

// bound reports whether anything leads to an object.
func (s *state) bound(o *Object) bool {
	for b := range s.All() {
		if slices.ContainsFunc(b, func(r Ref) bool { return r.Of == o }) {
			return true
		}
	}
	return false
}

// detach drops what matches from every binding.
func (s *state) detach(match func(Ref) bool) {
	s.Change(func(b Binding) (Binding, bool) {
		if !slices.ContainsFunc(b, match) {
			return b, false
		}
		return slices.DeleteFunc(slices.Clone(b), match), true
	})
}
