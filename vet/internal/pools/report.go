package pools

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// A Finding is one mistake. Kind is "use", "double" or "escape".
type Finding struct {
	Kind    string
	Pos     token.Pos
	Taken   token.Pos // where the function got the reference
	Message string
	Related []analysis.RelatedInformation
}

// used reports a use of what has ended.
func (f *function) used(s *state, r Ref, st status, pos token.Pos, how string) {
	name := f.nameOfObject(r.Of)
	var text string
	switch {
	case !st.ended.IsValid():
		text = fmt.Sprintf("use after release: bytes of %s are %s, but %s at %s ended them; use them before, or copy them", name, how, st.staleBy, f.Where(st.stale, pos))
		st.ended = st.stale
	case f.deferring.IsValid():
		text = fmt.Sprintf("use after release: %s was given back by %s at %s, and is %s by this defer when the function returns", name, st.by, f.Where(st.ended, pos), how)
	case r.Mode == View:
		text = fmt.Sprintf("use after release: these are bytes of %s, which %s gave back at %s, and are %s here; use them before, or copy them", name, st.by, f.Where(st.ended, pos), how)
	default:
		text = fmt.Sprintf("use after release: %s was given back by %s at %s, and is %s here; another goroutine may have it by now", name, st.by, f.Where(st.ended, pos), how)
	}
	f.emit(s, "use", r.Of, pos, st.ended, text)
}

// twice reports a second release.
func (f *function) twice(s *state, r Ref, st status, pos token.Pos, by string) {
	name := f.nameOfObject(r.Of)
	text := fmt.Sprintf("double release: %s was given back by %s at %s already; its next two users would share it", name, st.by, f.Where(st.ended, pos))
	if f.deferring.IsValid() && st.deferred != f.deferring {
		text = fmt.Sprintf("double release: %s is given back by %s at %s, and again by this defer when the function returns; its next two users would share it", name, st.by, f.Where(st.ended, pos))
	}
	f.emit(s, "double", r.Of, pos, st.ended, text)
}

// escaped reports what was stored elsewhere before it was given back.
func (f *function) escaped(s *state, o *Object, st status, pos token.Pos, by string) {
	name := f.nameOfObject(o)
	text := fmt.Sprintf("escape: %s, or bytes of it, is %s here, and outlives its release by %s at %s; store a copy, or release it later", name, st.kept.how, by, f.Where(pos, st.kept.pos))
	switch {
	case st.kept.wait && st.kept.how == sent:
		text = fmt.Sprintf("escape: %s, or bytes of it, is sent here, and is given back by %s at %s, perhaps before its receiver is done with it; let the receiver give it back, or send a copy", name, by, f.Where(pos, st.kept.pos))
	case st.kept.wait:
		text = fmt.Sprintf("escape: %s is %s here, and is given back by %s at %s, perhaps before that is done; wait for it, or let it give %s back", name, st.kept.how, by, f.Where(pos, st.kept.pos), name)
	}
	f.emit(s, "escape", o, st.kept.pos, pos, text)
}

// returned reports what is returned after it was given back.
func (f *function) returned(s *state, r Ref, st status, pos token.Pos) {
	name := f.nameOfObject(r.Of)
	if !st.ended.IsValid() {
		f.emit(s, "escape", r.Of, pos, st.stale, fmt.Sprintf("escape: bytes of %s are returned, but %s at %s ended them; return a copy", name, st.staleBy, f.Where(st.stale, pos)))
		return
	}
	text := fmt.Sprintf("escape: %s is returned, but it was given back by %s at %s", name, st.by, f.Where(st.ended, pos))
	switch r.Mode {
	case View:
		text = fmt.Sprintf("escape: bytes of %s are returned, but it was given back by %s at %s; return a copy", name, st.by, f.Where(st.ended, pos))
	case Inside:
		text = fmt.Sprintf("escape: the result leads to %s, or to bytes of it, which was given back by %s at %s; put a copy in it", name, st.by, f.Where(st.ended, pos))
	}
	f.emit(s, "escape", r.Of, pos, st.ended, text)
}

func (f *function) emit(s *state, kind string, o *Object, pos, other token.Pos, text string) {
	if !pos.IsValid() {
		pos = f.fn.Pos()
	}
	if f.seen[report{kind, pos}] {
		return
	}
	f.seen[report{kind, pos}] = true
	d := Finding{Kind: kind, Pos: pos, Taken: o.value.Pos(), Message: text}
	add := func(pos token.Pos, text string) {
		if pos.IsValid() {
			d.Related = append(d.Related, analysis.RelatedInformation{Pos: pos, Message: text})
		}
	}
	add(other, "given back here")
	for _, step := range s.Trail.Steps() {
		add(f.positions.Of(step.Branch), fmt.Sprintf("this condition is %v", step.Taken))
	}
	f.Report(d)
}

// nameOfObject is the source's name of an object.
func (f *function) nameOfObject(o *Object) string {
	if o.found {
		if name := f.nameOf(o.from); name != "" {
			return name
		}
	}
	switch v := o.value.(type) {
	case *ssa.Parameter, *ssa.FreeVar, *ssa.Alloc:
		if name := places.RootText(v); name != "" {
			return name
		}
	case *ssa.Phi:
		if token.IsIdentifier(v.Comment) {
			return v.Comment
		}
	case *ssa.Extract:
		if name := f.Name(v.Tuple.Pos()); name != "" {
			return name
		}
	}
	if name := f.Name(o.value.Pos()); name != "" {
		return name
	}
	return "the pooled value"
}

// nameOf is the source's name of a place; "" if it has none.
func (f *function) nameOf(p places.Place) string {
	return p.Text(f.nameOfRoot(p.Root), func(int64) string { return "…" })
}

func (f *function) nameOfRoot(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.Parameter, *ssa.FreeVar, *ssa.Global, *ssa.Alloc:
		return places.RootText(v)
	case *ssa.UnOp:
		if at, ok := newState().placeOf(v.X); ok {
			return f.nameOf(at)
		}
		return ""
	}
	return f.Name(v.Pos())
}

// callText is a call's function as messages name it: pool.Put, b.Free.
func (f *function) callText(c *ssa.CallCommon) string {
	fn := code.Callee(c)
	if fn == nil {
		if _, ok := c.Value.(*ssa.MakeClosure); ok {
			return "the function literal"
		}
		return "the function"
	}
	if r := fn.Signature().Recv(); r != nil {
		t := types.TypeString(r.Type(), func(*types.Package) string { return "" })
		return strings.TrimPrefix(t, "*") + "." + fn.Name()
	}
	return fn.Name()
}
