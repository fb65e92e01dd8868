package refs

import (
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// A ref is one abstract reference of a function: the result of a call, the value of a parameter, or the
// content that a variable was first seen to hold. A site in a loop has two: the latest and the one before.
type ref struct {
	id    int
	kind  kinds.Kind
	site  ssa.Value // nil for the content of a place
	index int       // which result of site
	pos   token.Pos // where it was taken
	param int       // index of the argument it came in by, or -1
	older *ref      // the reference of the iteration before
	field string    // for the content of a place: its name in the source, if known
	taken string    // for a part of a struct that the function takes over: the struct's name
	// owner is the source text of the lender of a loan, and lender its name in conditions.
	owner  string
	lender *conditions.Term
	// err is the error field of a struct returned by a call that says whether the struct holds a reference; 1
	// is the first field, 0 none.
	err int
}

// status is the state of a reference at one point of one path.
type status uint8

const (
	unknown status = iota // not tracked any further
	void                  // there is no reference: the zero Buffer, an empty container, a failed call
	held                  // owned: to be freed or given away
	lent                  // declared borrowed: not to be freed
	foreign               // another owner's, without a declaration
	freed
	given
)

// life is the state of one ref.
type life struct {
	st  status
	pos token.Pos // where it was freed or given away
	by  string    // the call or other reason
	// The status holds only if the condition key turns out to be true; if false, it is alt, or if same is not
	// nil, the value is that ref.
	key  *conditions.Condition
	alt  status
	same *ref
	// failure is the condition that the call's error is nil; otherwise there is nothing to free (rule 4).
	failure *conditions.Condition
	// with are other references to the same memory (rule 3), by id.
	with []int
	// moved is the position where a container was copied by value.
	moved token.Pos
	// changes counts how often views of a container ended.
	changes int
	kept    custody   // of a view that outlives the function
	sent    bool      // given to another goroutine, which may return it
	deferer token.Pos // the defer statement that freed it
	filled  bool      // a reference was put into another owner's container
	emptied bool      // what a struct had was ended through a pointer to it
	alive   bool      // it was used, or found not to be empty: there is something to free
	several bool      // it represents those of several iterations, each of which is freed
}

// binding is the known content of a value or place.
type binding struct {
	refs  []*ref
	views []view
	part  bool // some of what a composite ref holds
}

func (b binding) empty() bool { return len(b.refs) == 0 && len(b.views) == 0 }

func (b binding) has(r *ref) bool { return slices.Contains(b.refs, r) }

// state is the knowledge at one point of one path.
type state struct {
	flow.State[binding]
	lives   map[*ref]life
	alias   map[*conditions.Condition]*conditions.Condition
	escaped map[ssa.Value]bool
	stored  map[places.Place]bool // places outside of the function in which it stored its own reference
	lost    map[places.Place]bool // places that were forgotten after their content had ended, or may have
	mapped  map[places.Place]*ref // elements of maps in which it stored a reference that is still there
}

func newState() *state {
	return &state{
		State: flow.NewState[binding](), lives: map[*ref]life{}, alias: map[*conditions.Condition]*conditions.Condition{},
		escaped: map[ssa.Value]bool{}, stored: map[places.Place]bool{}, lost: map[places.Place]bool{}, mapped: map[places.Place]*ref{},
	}
}

func (s *state) clone() *state {
	return &state{
		State: s.Clone(), lives: maps.Clone(s.lives), alias: maps.Clone(s.alias),
		escaped: maps.Clone(s.escaped), stored: maps.Clone(s.stored), lost: maps.Clone(s.lost), mapped: maps.Clone(s.mapped),
	}
}

// key identifies the state for the search, without the path that led to it.
func (s *state) key(number func(ssa.Value) int) string {
	var parts []string
	for r, l := range s.lives {
		parts = append(parts, "r"+strconv.Itoa(r.id)+":"+strconv.Itoa(int(l.st))+","+strconv.Itoa(l.key.ID())+","+strconv.Itoa(l.failure.ID())+","+strconv.Itoa(int(l.alt))+","+strconv.Itoa(int(l.moved))+","+strconv.Itoa(int(l.pos))+","+strconv.Itoa(l.changes)+","+strconv.Itoa(int(l.kept.pos))+ids(l.with)+strconv.FormatBool(l.filled)+strconv.FormatBool(l.emptied)+strconv.FormatBool(l.alive)+strconv.FormatBool(l.several))
	}
	for c, to := range s.alias {
		parts = append(parts, "a"+strconv.Itoa(c.ID())+"="+strconv.Itoa(to.ID()))
	}
	for p := range s.lost {
		parts = append(parts, "l"+flow.PlaceKey(p, number))
	}
	for at, r := range s.mapped {
		parts = append(parts, "m"+flow.PlaceKey(at, number)+strconv.Itoa(r.id))
	}
	for p := range s.stored {
		parts = append(parts, "s"+flow.PlaceKey(p, number))
	}
	for v := range s.escaped {
		parts = append(parts, "e"+strconv.Itoa(number(v)))
	}
	return s.Key(number, binding.key, parts)
}

func ids(list []int) string {
	var b strings.Builder
	for _, n := range list {
		b.WriteByte('w')
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

func (b binding) key() string {
	var s strings.Builder
	for _, r := range b.refs {
		s.WriteString("=" + strconv.Itoa(r.id))
	}
	for _, v := range b.views {
		s.WriteString("~" + strconv.Itoa(v.of.id) + "." + strconv.Itoa(v.changes))
		if v.inside {
			s.WriteByte('i')
		}
	}
	if b.part {
		s.WriteByte('p')
	}
	return s.String()
}

// join is both bindings together.
func (b binding) join(o binding) binding {
	for _, r := range o.refs {
		if !slices.Contains(b.refs, r) {
			b.refs = append(slices.Clip(b.refs), r)
		}
	}
	for _, v := range o.views {
		if !slices.Contains(b.views, v) {
			b.views = append(slices.Clip(b.views), v)
		}
	}
	b.part = b.part || o.part
	return b
}

// bound reports whether anything except the slot except still leads to r.
func (s *state) bound(r *ref, except flow.Slot) bool {
	for v, b := range s.Vals {
		if v != except && v != flow.Of(except.Value) && b.has(r) {
			return true
		}
	}
	for _, b := range s.Mem {
		if b.has(r) {
			return true
		}
	}
	for _, d := range s.Defers {
		for _, b := range d.Args {
			if b.has(r) {
				return true
			}
		}
	}
	return false
}

// rename makes everything that leads to one ref lead to another.
func (s *state) rename(from, to *ref) {
	s.Change(func(b binding) (binding, bool) {
		changed := b.has(from)
		if changed {
			b.refs = slices.Clone(b.refs)
			b.refs[slices.Index(b.refs, from)] = to
		}
		for i, v := range b.views {
			if v.of == from {
				b.views = slices.Clone(b.views)
				b.views[i].of, changed = to, true
			}
		}
		return b, changed
	})
	for r, l := range s.lives {
		if i := slices.Index(l.with, from.id); i >= 0 {
			l.with = slices.Clone(l.with)
			l.with[i] = to.id
			s.lives[r] = l
		}
		if l.same == from {
			l.same = to
			s.lives[r] = l
		}
	}
	s.lives[to] = s.lives[from]
	delete(s.lives, from)
}

// forget stops tracking r.
func (s *state) forget(r *ref) {
	if l, ok := s.lives[r]; ok {
		s.lives[r] = life{with: l.with, several: l.several}
	}
}
