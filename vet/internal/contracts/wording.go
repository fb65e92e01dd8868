package contracts

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"

	"github.com/tarn-go/tarn/vet/internal/kinds"
)

// The wording by which a doc comment states ownership; doc.go of package tarn defines it.
var (
	takesWords   = regexp.MustCompile(`(?i)\btak(?:es|ing) ownership\b(?: of (?:it\b|all\b|the argument|(?:what )?((?:[\pL_][\pL\pN_.]*)(?:(?:, | and |, and )[\pL_][\pL\pN_.]*)*)))?`)
	takesIn      = regexp.MustCompile(`\btakes ownership of the [\pL]+ in ([\pL_][\pL\pN_]*)`)
	takesIt      = regexp.MustCompile(`\b([\pL_][\pL\pN_]*), which (?:it|this) takes ownership of\b`)
	borrowsWords = regexp.MustCompile(`(?i)\bborrows\b(?: ((?:[\pL_][\pL\pN_]*)(?:(?:, | and |, and )[\pL_][\pL\pN_]*)*))?`)
	isBorrowed   = regexp.MustCompile(`\b([\pL_][\pL\pN_]*) (?:is|are) borrowed\b`)
	keepsWords   = regexp.MustCompile(`(?i)\bstays? the caller's\b|\bstill the caller's\b`)
	freedWords   = regexp.MustCompile(`(?i)\bto be freed\b|\bfreed by the caller\b|\bthe caller frees\b`)
	viewWords    = regexp.MustCompile(`(?i)\breturns [^.]*\bborrowed\b`)
	lendsWords   = regexp.MustCompile(`(?i)\bvalid until the next call of any method of ([\pL_][\pL\pN_]*)`)
	separators   = regexp.MustCompile(`, and | and |, `)
)

// Declared reads the contract that a doc comment states. It returns nil when it states none.
func Declared(t *kinds.Types, doc *ast.CommentGroup, sig *types.Signature) *Contract {
	if doc == nil || !concerned(t, sig) {
		return nil
	}
	text := strings.Join(strings.Fields(doc.Text()), " ")
	vars := Arguments(sig)
	c := &Contract{Params: make([]Param, len(vars)), Results: make([]Result, sig.Results().Len())}
	said := false
	if m := takesWords.FindAllStringSubmatch(text, -1); m != nil {
		p := Param{Effect: Take}
		if out := Outcomes(sig); keepsWords.MatchString(text) && len(out) > 0 {
			p.When, p.At = out[0].When, out[0].At
		}
		for _, sub := range m {
			said = declare(t, c, vars, sub[1], p) || said
		}
	}
	for _, words := range []*regexp.Regexp{takesIn, takesIt} {
		for _, sub := range words.FindAllStringSubmatch(text, -1) {
			for i, v := range vars {
				if v.Name() == sub[1] && c.Declared&(1<<i) == 0 && t.Pointee(v.Type()) != kinds.Untracked {
					c.Set(i, fit(t, v.Type(), Param{Effect: Take}))
					said = true
				}
			}
		}
	}
	for _, words := range []*regexp.Regexp{borrowsWords, isBorrowed} {
		for _, sub := range words.FindAllStringSubmatch(text, -1) {
			said = declare(t, c, vars, sub[1], Borrows) || said
		}
	}
	for i := range c.Results {
		typ := sig.Results().At(i).Type()
		if m := lendsWords.FindStringSubmatch(text); m != nil && kinds.IsBytes(typ) && sig.Recv() != nil && sig.Recv().Name() == m[1] {
			c.Results[i] = Result{Source: Lent}
			said = true
		}
		if t.Of(typ) == kinds.Untracked && !isParameter(typ) {
			continue
		}
		switch {
		case freedWords.MatchString(text):
			c.Results[i] = Result{Source: Owned}
			if at, ok := OK(sig); ok {
				c.Results[i].When, c.Results[i].At = IfTrue, at
			} else if out := Outcomes(sig); len(out) > 0 {
				c.Results[i].When, c.Results[i].At = out[0].When, out[0].At
			} else if at, ok := kinds.ErrorField(sig.Results().At(i).Type()); ok {
				c.Results[i].When, c.Results[i].At = IfOwnNil, at
			}
			said = true
		case viewWords.MatchString(text):
			c.Results[i] = Result{Source: Borrowed}
			said = true
		}
	}
	if !said {
		return nil
	}
	return c
}

// isParameter reports whether a type is a type parameter, for which there may be a reference.
func isParameter(t types.Type) bool {
	_, ok := types.Unalias(t).(*types.TypeParam)
	return ok
}

// concerned reports whether a function's arguments or results can be references, or its results bytes that its receiver lends.
func concerned(t *kinds.Types, sig *types.Signature) bool {
	if t.Moves(sig) || sig.Recv() != nil && t.Holds(sig.Recv().Type()) {
		return true
	}
	for v := range sig.Results().Variables() {
		if isParameter(v.Type()) || sig.Recv() != nil && kinds.IsBytes(v.Type()) {
			return true
		}
	}
	return false
}

// sameAs is the beginning of a comment such as "sendLocked is send. mu is held."
var sameAs = regexp.MustCompile(`^([\pL_][\pL\pN_]*) is ([\pL_][\pL\pN_]*)\b`)

// SameAs is the name of the function of which a comment says that it is another one, by the first words; "" if it says nothing of that kind.
func SameAs(doc *ast.CommentGroup, name string) string {
	if doc == nil {
		return ""
	}
	if m := sameAs.FindStringSubmatch(doc.Text()); m != nil && m[1] == name {
		return m[2]
	}
	return ""
}

// As adds what the contract of another function declares of parameters that have the same name and type. It returns nil if there is
// nothing.
func As(own, other *Contract, sig, otherSig *types.Signature) *Contract {
	vars, others := Arguments(sig), Arguments(otherSig)
	for i, v := range vars {
		for j, o := range others {
			p := other.Param(j)
			if other.Declared&(1<<j) == 0 || v.Name() != o.Name() || !types.Identical(v.Type(), o.Type()) || p.When != Always {
				continue
			}
			if own == nil {
				own = &Contract{Params: make([]Param, len(vars)), Results: make([]Result, sig.Results().Len())}
			}
			if own.Declared&(1<<i) == 0 {
				own.Set(i, p)
			}
		}
	}
	return own
}

// declare gives the effect p to the arguments in names, or to all that hold references when names is empty.
// It reports whether there was one.
func declare(t *kinds.Types, c *Contract, vars []*types.Var, names string, p Param) bool {
	if names != "" {
		found := false
		for _, name := range separators.Split(strings.TrimRight(names, "."), -1) {
			// "takes ownership of p.body" means p if body is the only reference in it.
			name, _, field := strings.Cut(name, ".")
			for i, v := range vars {
				if _, only := t.OnlyLeaf(v.Type()); field && !only {
					continue
				}
				if v.Name() == name && name != "" {
					found = true
					if t.Holds(v.Type()) {
						c.Set(i, fit(t, v.Type(), p))
					}
				}
			}
		}
		if found {
			return true
		}
		// "borrows the buffers": these are words of the sentence, not names.
		return false
	}
	found := false
	for i, v := range vars {
		// A receiver is meant only if it is a handle: methods of owners apply to themselves.
		if i == 0 && isReceiver(v) && t.Of(v.Type()) != kinds.Handle {
			continue
		}
		if t.Of(v.Type()) != kinds.Untracked || t.Pointee(v.Type()) == kinds.Container {
			c.Set(i, fit(t, v.Type(), p))
			found = true
		}
	}
	return found
}

// fit adapts an effect to a pointer: taking a container's pointer takes its content.
func fit(t *kinds.Types, typ types.Type, p Param) Param {
	if p.Effect == Take && t.Pointee(typ) != kinds.Untracked {
		p.Effect = Empty
	}
	return p
}

// Set states the effect on argument i.
func (c *Contract) Set(i int, p Param) {
	c.Params[i] = p
	c.Declared |= 1 << i
}

func isReceiver(v *types.Var) bool {
	return v.Kind() == types.RecvVar
}
