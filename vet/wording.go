package vet

import (
	"go/ast"
	"go/types"
	"regexp"
	"strings"
)

// The wording by which a doc comment states ownership; doc.go of package tarn defines it.
var (
	takesWords   = regexp.MustCompile(`(?i)\btak(?:es|ing) ownership\b(?: of (?:it\b|all\b|the argument|(?:what )?((?:[\pL_][\pL\pN_.]*)(?:(?:, | and |, and )[\pL_][\pL\pN_.]*)*)))?`)
	borrowsWords = regexp.MustCompile(`(?i)\bborrows\b(?: ((?:[\pL_][\pL\pN_]*)(?:(?:, | and |, and )[\pL_][\pL\pN_]*)*))?`)
	isBorrowed   = regexp.MustCompile(`\b([\pL_][\pL\pN_]*) (?:is|are) borrowed\b`)
	keepsWords   = regexp.MustCompile(`(?i)\bstays? the caller's\b|\bstill the caller's\b`)
	freedWords   = regexp.MustCompile(`(?i)\bto be freed\b|\bfreed by the caller\b|\bthe caller frees\b`)
	viewWords    = regexp.MustCompile(`(?i)\breturns [^.]*\bborrowed\b`)
	lendsWords   = regexp.MustCompile(`(?i)\bvalid until the next call of any method of ([\pL_][\pL\pN_]*)`)
	separators   = regexp.MustCompile(`, and | and |, `)
)

// declared reads the contract that a doc comment states. It returns nil when it states none.
func (t *tracked) declared(doc *ast.CommentGroup, sig *types.Signature) *contract {
	if doc == nil {
		return nil
	}
	text := strings.Join(strings.Fields(doc.Text()), " ")
	vars := arguments(sig)
	c := &contract{Params: make([]param, len(vars)), Results: make([]result, sig.Results().Len())}
	said := false
	if m := takesWords.FindAllStringSubmatch(text, -1); m != nil {
		p := param{Effect: effectTake}
		if out := outcomes(sig); keepsWords.MatchString(text) && len(out) > 0 {
			p.When, p.At = out[0].when, out[0].at
		}
		for _, sub := range m {
			said = t.declare(c, vars, sub[1], p) || said
		}
	}
	for _, words := range []*regexp.Regexp{borrowsWords, isBorrowed} {
		for _, sub := range words.FindAllStringSubmatch(text, -1) {
			said = t.declare(c, vars, sub[1], borrowed) || said
		}
	}
	for i := range c.Results {
		typ := sig.Results().At(i).Type()
		if m := lendsWords.FindStringSubmatch(text); m != nil && isBytes(typ) && sig.Recv() != nil && sig.Recv().Name() == m[1] {
			c.Results[i] = result{Source: resultLoan}
			said = true
		}
		if t.kindOf(typ) == untracked {
			continue
		}
		switch {
		case freedWords.MatchString(text):
			c.Results[i] = result{Source: resultOwned}
			if at, ok := okResult(sig); ok {
				c.Results[i].When, c.Results[i].At = ifTrue, at
			} else if out := outcomes(sig); len(out) > 0 {
				c.Results[i].When, c.Results[i].At = out[0].when, out[0].at
			} else if at, ok := errorField(sig.Results().At(i).Type()); ok {
				c.Results[i].When, c.Results[i].At = ifOwnNil, at
			}
			said = true
		case viewWords.MatchString(text):
			c.Results[i] = result{Source: resultBorrowed}
			said = true
		}
	}
	if !said {
		return nil
	}
	return c
}

// declare gives the effect p to the arguments in names, or to all that hold references when names is empty.
// It reports whether there was one.
func (t *tracked) declare(c *contract, vars []*types.Var, names string, p param) bool {
	if names != "" {
		found := false
		for _, name := range separators.Split(strings.TrimRight(names, "."), -1) {
			// "takes ownership of p.body" means p if body is the only reference in it.
			name, _, field := strings.Cut(name, ".")
			for i, v := range vars {
				if _, only := t.onlyLeaf(v.Type()); field && !only {
					continue
				}
				if v.Name() == name && name != "" {
					found = true
					if t.holds(v.Type()) {
						c.set(i, t.fit(v.Type(), p))
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
		if i == 0 && isReceiver(v) && t.kindOf(v.Type()) != handle {
			continue
		}
		if t.kindOf(v.Type()) != untracked || t.pointee(v.Type()) == container {
			c.set(i, t.fit(v.Type(), p))
			found = true
		}
	}
	return found
}

// fit adapts an effect to a pointer: taking a container's pointer takes its content.
func (t *tracked) fit(typ types.Type, p param) param {
	if p.Effect == effectTake && t.pointee(typ) != untracked {
		p.Effect = effectEmpty
	}
	return p
}

func (c *contract) set(i int, p param) {
	c.Params[i] = p
	c.Declared |= 1 << i
}

func isReceiver(v *types.Var) bool {
	return v.Kind() == types.RecvVar
}
