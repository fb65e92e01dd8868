package refs

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// report reports a finding about r, at pos.
func (f *function) report(s *state, kind report.Kind, r *ref, pos token.Pos, how string) {
	if f.quiet {
		return
	}
	if !pos.IsValid() {
		pos = f.fn.Pos()
	}
	l := s.lives[r]
	d := analysis.Diagnostic{Pos: pos, Category: string(kind)}
	name := f.variable(r)
	subject := name
	if subject == "" {
		subject = "the reference"
	}
	switch kind {
	case report.Leak:
		if r.kind == kinds.Bag && f.emptied() {
			return
		}
		f.told[r.site] = true
		f.leak(s, r, l, &d, pos, how)
	case report.Use:
		switch {
		case how == "bytes" && l.st == freed:
			d.Message = fmt.Sprintf("use after free: these are bytes of %s, which was freed at %s", subject, f.reports.Where(l.pos, pos))
		case how == "bytes" && l.by != throughChannel:
			d.Message = fmt.Sprintf("use after free: these are bytes of %s, which %s took over at %s", subject, l.by, f.reports.Where(l.pos, pos))
		case how == "bytes" && l.by == throughChannel:
			d.Message = fmt.Sprintf("use after free: these are bytes of %s, which was sent at %s, and its receiver may have freed it", subject, f.reports.Where(l.pos, pos))
		case how == "loan":
			d.Message = fmt.Sprintf("use after free: these bytes are borrowed until the next call of a method of %s, and that is %s at %s", r.owner, l.by, f.reports.Where(l.pos, pos))
		case how == "views":
			d.Message = fmt.Sprintf("use after free: these views of %s ended when bytes were taken out of it", subject)
		case l.by == throughChannel:
			d.Message = fmt.Sprintf("use after free: %s was sent at %s and is %s here: its receiver owns it; use it before, or send %s", subject, f.reports.Where(l.pos, pos), how, or(addRef(name), "a Ref"))
		case l.st == freed:
			d.Message = fmt.Sprintf("use after free: %s was freed at %s and is %s here", subject, f.reports.Where(l.pos, pos), how)
		default:
			cure := "use it before, or pass " + or(addRef(name), "a Ref")
			if r.kind != kinds.Handle {
				cure = "use it before"
			} else if exchanges(l.by) {
				cure = "use what it returned, or take a Ref before"
			}
			d.Message = fmt.Sprintf("use after free: %s took ownership of %s at %s, and it is %s here; %s", l.by, subject, f.reports.Where(l.pos, pos), how, cure)
		}
		f.related(&d, l.pos, "ownership ended here")
	case report.Double:
		f.twice(r, l, &d, pos, subject, how)
		f.related(&d, l.pos, "freed here first")
	case report.Escape:
		switch how {
		case "append":
			d.Message = "escape: append to Bytes()[:0] leaves the buffer when the bytes do not fit; copy into Bytes(), or append to a tarn.Writer"
		default:
			f.escaped(r, l, &d, pos, subject, how)
		}
	case report.Copy:
		d.Message = fmt.Sprintf("copy: %s was copied by value at %s and is used again here; the two own the same memory: use a pointer, or AppendChain to move the bytes", subject, f.reports.Where(l.moved, pos))
		f.related(&d, l.moved, "copied here")
	case report.Write:
		d.Message = fmt.Sprintf("write: bytes of %s are written while another reference to them is alive (rule 3); write before Ref or Slice, or check Unique", subject)
	case report.Contract:
		d.Message = fmt.Sprintf("contract: the comment says that %s borrows %s, but it is %s here", f.fn.Name(), subject, f.verb(how))
	}
	if d.Pos != r.pos && r.pos.IsValid() {
		f.related(&d, r.pos, subject+" was taken here")
	}
	for _, step := range s.Trail.Steps() {
		f.related(&d, f.positions.Of(step.Branch), fmt.Sprintf("this condition is %v", step.Taken))
	}
	f.reports.Emit(d, r.pos)
}

func (f *function) verb(how string) string {
	if how == "freed" {
		return how
	}
	return "given to " + how
}

// leak makes the message for a leak. It is reported where the reference was taken: that line stays when the
// rest of the function changes, and a directive belongs there.
func (f *function) leak(s *state, r *ref, l life, d *analysis.Diagnostic, pos token.Pos, how string) {
	name := f.variable(r)
	origin := r.pos
	if (r.kind == kinds.Container || r.kind == kinds.Bag) && l.pos.IsValid() {
		origin = l.pos
	}
	if origin.IsValid() {
		d.Pos = origin
	}
	at, hasSite := f.sites[r.pos]
	from := ""
	if hasSite {
		from = " from " + at.Text()
	}
	what := "the reference" + from
	if name != "" {
		what = name + from
		if r.kind == kinds.Container && l.pos.IsValid() {
			what = name // it was not taken from there
		}
	}
	cure := "free it there, or give it to a function that takes ownership"
	if r.kind != kinds.Composite && name != "" && !strings.ContainsAny(name, " (") {
		cure = fmt.Sprintf("call %s.Free() there, or defer it, or give %s to a function that takes ownership", name, name)
	}
	switch {
	case how == "error":
		d.Pos = pos
		d.Message = fmt.Sprintf("leak: %s is returned together with a non-nil error%s, and callers free nothing then (rule 4); free it here, and return the zero value", what, f.pathText(s, pos))
	case how == "perhaps error":
		d.Pos = pos
		d.Message = fmt.Sprintf("leak: %s is returned although the error may be non-nil%s, and callers free nothing then (rule 4); free it where there is an error, and return the zero value", what, f.pathText(s, pos))
	case how == "pooled":
		d.Pos = pos
		d.Message = fmt.Sprintf("leak: %s is put into a sync.Pool without having been freed%s: the garbage collector may drop it there; free it first", what, f.pathText(s, pos))
	case how == "refused":
		subject := what + " is not freed"
		if r.taken != "" {
			subject = fmt.Sprintf("%s takes ownership of what %s holds, as its comment says, but does not free %s", f.fn.Name(), r.taken, name)
		} else if r.param >= 0 {
			subject = fmt.Sprintf("%s takes ownership of %s, as its comment says, but does not free it", f.fn.Name(), name)
		}
		if l.key.X.Value == nil {
			d.Message = fmt.Sprintf("leak: %s %s, where it is not nil (rule 2: on every path)", subject, f.wayOut(s, pos))
			break
		}
		d.Message = fmt.Sprintf("leak: %s %s if %s fails, which then leaves it to its caller; free it where that is so", subject, f.wayOut(s, pos), decider(l.key))
	case how == "overwritten":
		d.Pos = pos
		d.Message = fmt.Sprintf("leak: %s is overwritten without having been freed or moved elsewhere on this path%s; free it first", what, f.pathText(s, pos))
	case r.param >= 0:
		d.Message = fmt.Sprintf("leak: %s takes ownership of %s, as its comment says, but does not free it %s (rule 2: on every path)", f.fn.Name(), name, f.wayOut(s, pos))
	case r.taken != "":
		d.Message = fmt.Sprintf("leak: %s takes ownership of what %s holds, as its comment says, but does not free %s %s (rule 2: on every path)", f.fn.Name(), r.taken, name, f.wayOut(s, pos))
	case r.kind == kinds.Bag:
		d.Message = fmt.Sprintf("leak: the references collected in %s are not freed %s; range over it and free each", or(name, "the slice"), f.wayOut(s, pos))
	case r.kind == kinds.Container && l.pos.IsValid():
		d.Message = fmt.Sprintf("leak: %s holds what this call put in, and is not freed %s; free it, or move its content on", or(name, "the container"), f.wayOut(s, pos))
	case hasSite && at.Stmt != nil && len(at.LHS) == 0:
		d.Message = fmt.Sprintf("leak: the result of %s is a reference to be freed, and is ignored", at.Text())
	case how == "loop":
		d.Message = fmt.Sprintf("leak: %s is not freed before the next iteration of the loop takes another one%s; free it, or give it away, on every path through the loop", what, f.pathText(s, origin))
	default:
		d.Message = fmt.Sprintf("leak: %s is not freed %s; %s", what, f.wayOut(s, pos), cure)
		if over := f.overwriter(r); over != nil {
			f.narrow(d, over, name, from)
		}
	}
	if d.Pos != pos {
		f.related(d, pos, "it is lost here")
	}
}

// decider is the name of the function whose result a condition tests.
func decider(c *conditions.Condition) string {
	v := c.X.Value
	if e, ok := v.(*ssa.Extract); ok {
		v = e.Tuple
	}
	if call, ok := v.(*ssa.Call); ok {
		return calleeName(&call.Call)
	}
	return "the call"
}

// wayOut describes the path to a return.
func (f *function) wayOut(s *state, pos token.Pos) string {
	if pos == f.fn.Pos() || f.reports.Line(pos) == 0 {
		return "when the function ends" + f.pathText(s, pos)
	}
	return fmt.Sprintf("on the path that returns at line %d%s", f.reports.Line(pos), f.pathText(s, pos))
}

// pathText lists the last decisions of the path.
func (f *function) pathText(s *state, near token.Pos) string {
	var steps []*flow.Trail
	for _, next := range s.Trail.Steps() {
		// When a condition, or a part of one, was tested several times, the last decision counts.
		steps = slices.DeleteFunc(steps, func(before *flow.Trail) bool {
			return f.reports.Line(f.positions.Of(before.Branch)) == f.reports.Line(f.positions.Of(next.Branch))
		})
		steps = append(steps, next)
	}
	if len(steps) > 4 {
		steps = steps[len(steps)-4:]
	}
	var parts []string
	for _, step := range steps {
		parts = append(parts, fmt.Sprintf("%s is %v", f.reports.Where(f.positions.Of(step.Branch), near), step.Taken))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (where the condition at " + strings.Join(parts, ", at ") + ")"
}

func (f *function) related(d *analysis.Diagnostic, pos token.Pos, text string) {
	if pos.IsValid() {
		d.Related = append(d.Related, analysis.RelatedInformation{Pos: pos, Message: text})
	}
}

// overwriter finds b = b.Slice(i, j) for the variable that r was in.
func (f *function) overwriter(r *ref) *report.Site {
	if r.site == nil {
		return nil
	}
	values := []ssa.Value{r.site}
	if e := extracted(r.site, r.index); e != nil {
		values = append(values, e)
	}
	for _, v := range values {
		refs := v.Referrers()
		if refs == nil {
			continue
		}
		for _, u := range *refs {
			call, ok := u.(*ssa.Call)
			if !ok || call.Call.StaticCallee() == nil || call.Call.StaticCallee().Name() != "Slice" || len(call.Call.Args) == 0 || call.Call.Args[0] != v {
				continue
			}
			at, ok := f.sites[call.Pos()]
			if !ok || len(at.LHS) != 1 || at.Call == nil {
				continue
			}
			if sel, ok := at.Call.Fun.(*ast.SelectorExpr); ok && types.ExprString(sel.X) == types.ExprString(at.LHS[0]) {
				return &at
			}
		}
	}
	return nil
}

// narrow makes the message for a leak by b = b.Slice(i, j), which has a mechanical fix.
func (f *function) narrow(d *analysis.Diagnostic, at *report.Site, name, from string) {
	sel := at.Call.Fun.(*ast.SelectorExpr)
	d.Message = fmt.Sprintf("leak: %s = %s.Slice(…) takes a second reference and loses the first one%s; %s.Narrow(…) keeps one", name, name, from, name)
	d.Pos = at.Call.Pos()
	d.SuggestedFixes = []analysis.SuggestedFix{{
		Message:   "replace Slice by Narrow",
		TextEdits: []analysis.TextEdit{{Pos: sel.Sel.Pos(), End: sel.Sel.End(), NewText: []byte("Narrow")}},
	}}
}

func or(name, otherwise string) string {
	if name != "" {
		return name
	}
	return otherwise
}

// addRef is the source text of a second reference of a variable.
func addRef(name string) string {
	if name == "" {
		return ""
	}
	return name + ".Ref()"
}

// escaped makes the message for bytes that outlive their reference: they were returned after it ended, or it ends
// after they were stored elsewhere.
func (f *function) escaped(r *ref, l life, d *analysis.Diagnostic, pos token.Pos, subject, how string) {
	returned := how == "returned" || strings.HasSuffix(how, " returned")
	switch {
	case r.kind == kinds.Loan && returned:
		d.Message = fmt.Sprintf("escape: bytes that %s lends are %s, but %s at %s ended that; return a copy of them", r.owner, how, l.by, f.reports.Where(l.pos, pos))
	case r.kind == kinds.Loan:
		d.Message = fmt.Sprintf("escape: bytes that %s lends are %s here and outlive that: they are valid until its next method is called; keep a copy of them", r.owner, how)
	case r.kind == kinds.Container:
		d.Message = fmt.Sprintf("escape: views of %s are %s, but it was freed or changed before; return the memory itself, or a copy of the bytes", subject, how)
	case l.kept.by == forGood:
		d.Message = fmt.Sprintf("escape: the function that is set up here runs %s and uses bytes of %s, which is freed before; free %s in it, or let it use a copy of the bytes", how, subject, subject)
	case returned && how != "returned":
		d.Message = fmt.Sprintf("escape: bytes of %s are %s, but it was freed at %s; free it in the literal, or let that use a copy of the bytes", subject, how, f.reports.Where(l.pos, pos))
	case returned:
		d.Message = fmt.Sprintf("escape: bytes of %s are returned, but it was freed at %s; return the Buffer, or a copy of the bytes", subject, f.reports.Where(l.pos, pos))
	case l.kept.by == goroutine && how != "sent":
		d.Message = fmt.Sprintf("escape: bytes of %s are %s here, and %s is freed later in this function, perhaps before that goroutine is done; wait for it, or give it %s to free", subject, how, subject, or(addRef(f.variable(r)), "a Ref"))
	default:
		d.Message = fmt.Sprintf("escape: bytes of %s are %s here and outlive it, as it is freed later in this function; keep the Buffer, or a copy of the bytes", subject, how)
	}
}

// twice makes the message for a second free. how is "freed", or the call that takes ownership.
func (f *function) twice(r *ref, l life, d *analysis.Diagnostic, pos token.Pos, subject, how string) {
	switch {
	case l.by == whenTestEnds:
		act := "is freed here, and again"
		if how != "freed" {
			act = "is given to " + how + " here, which takes ownership, and freed again"
		}
		who := "its Free was passed to Cleanup at " + f.reports.Where(l.pos, pos)
		if call, ok := r.site.(*ssa.Call); ok && l.pos == r.pos {
			who = calleeName(&call.Call) + " passed its Free to Cleanup"
		}
		d.Message = fmt.Sprintf("double free: %s %s when the test ends: %s", subject, act, who)
	case f.deferring.IsValid() && l.deferer != f.deferring:
		d.Message = fmt.Sprintf("double free: %s is freed at %s, and again by this defer when the function returns", subject, f.reports.Where(l.pos, pos))
	default:
		d.Message = fmt.Sprintf("double free: %s was freed at %s already; each reference is freed once (rule 1)", subject, f.reports.Where(l.pos, pos))
	}
}

// exchanges reports whether a method takes a reference and returns another one for it.
func exchanges(method string) bool {
	name := method[strings.LastIndexByte(method, '.')+1:]
	return slices.Contains([]string{"Split", "Narrow", "Shrink", "Join", "GrowTail", "GrowHead"}, name)
}
