package poolfile

import (
	"errors"
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// Check returns an error for each name in the project's file that pkg does not declare, or that can have no effect, if the file
// describes it.
func (s *Set) Check(pkg *types.Package) error {
	var list []error
	for i := range s.pools {
		p := &s.pools[i]
		if !p.user || p.pkg != pkg.Path() {
			continue
		}
		for _, e := range p.entries {
			if err := e.check(pkg); err != nil {
				list = append(list, fmt.Errorf("%s:%d: package %s: %s: %q: %w", s.user, e.line, p.pkg, fields[e.effect], e.text, err))
			}
		}
	}
	return errors.Join(list...)
}

// Unmatched is a package of the project's file that is not part of a run: it has no effect there.
type Unmatched struct {
	Package string // as the file has it
	Nearest string // the package of the run whose path is so near that it may be meant; "" if there is none
	Text    string // the complaint, with the line
}

// Unmatched returns the packages of the project's file that none of some import paths is.
func (s *Set) Unmatched(paths map[string]bool) (list []Unmatched) {
	all := make([]string, 0, len(paths))
	for path := range paths {
		all = append(all, path)
	}
	for i := range s.pools {
		p := &s.pools[i]
		if !p.user || slices.ContainsFunc(all, p.matches) {
			continue
		}
		u := Unmatched{Package: p.pkg, Text: fmt.Sprintf("%s:%d: package %s: no package of this run has this path, or imports it", s.user, p.line, p.pkg)}
		if near := nearest(p.pkg, all); near != "" && distance(near, p.pkg) <= 1+len(p.pkg)/8 {
			u.Nearest = near
			u.Text += "; " + near + " is nearest"
		}
		list = append(list, u)
	}
	return list
}

// check finds the functions that an entry means.
func (e entry) check(pkg *types.Package) error {
	found, names := false, []string{}
	for fn, name := range functions(pkg) {
		names = append(names, name)
		if !e.means(receiver(fn), fn.Name()) {
			continue
		}
		found = true
		if e.typ == "*" {
			continue
		}
		if _, err := e.argument(fn); err != nil {
			return err
		}
		if !fn.Exported() {
			return fmt.Errorf("%s is not exported: no other package calls it, and a package that has contracts is not checked itself", fn.Name())
		}
		if e.effect == View && !slices.ContainsFunc(slices.Collect(fn.Signature().Results().Variables()), leadsToMemory) {
			return fmt.Errorf("%s returns no bytes, nor anything else that leads to memory", fn.Name())
		}
	}
	if found {
		return nil
	}
	if why := e.mistaken(pkg); why != "" {
		return errors.New(why)
	}
	if near := nearest(e.full(), names); near != "" {
		return fmt.Errorf("there is no %s; %s is nearest", e.full(), near)
	}
	return fmt.Errorf("there is no %s", e.full())
}

func (e entry) full() string {
	if e.typ == "" {
		return e.name
	}
	return e.typ + "." + e.name
}

// leadsToMemory reports whether a result can be bytes or a part of an argument.
func leadsToMemory(v *types.Var) bool {
	basic, ok := v.Type().Underlying().(*types.Basic)
	return Holds(v.Type()) || ok && (basic.Kind() == types.String || basic.Kind() == types.UnsafePointer)
}

// mistaken says what an entry names that is no function or method of the package; "" if that is nothing.
func (e entry) mistaken(pkg *types.Package) string {
	switch e.typ {
	case "*":
		return ""
	case "":
		switch pkg.Scope().Lookup(e.name).(type) {
		case *types.Var:
			return e.name + " is a variable: calls through it are not followed"
		case *types.TypeName:
			return e.name + " is a type; want a function or Type.Method"
		}
		for fn, name := range functions(pkg) {
			if fn.Name() == e.name {
				return fmt.Sprintf("there is no function %s; %s is a method", e.name, name)
			}
		}
		return ""
	}
	obj := pkg.Scope().Lookup(e.typ)
	if obj == nil {
		if fn, ok := pkg.Scope().Lookup(e.name).(*types.Func); ok && strings.EqualFold(e.typ, pkg.Name()) {
			return "names are written without the package: " + fn.Name()
		}
		return ""
	}
	typ, ok := obj.(*types.TypeName)
	if !ok {
		return e.typ + " is no type"
	}
	// Of an alias and of a promoted method, the package and the type are meant that declare the method.
	found, _, _ := types.LookupFieldOrMethod(typ.Type(), true, pkg, e.name)
	switch found := found.(type) {
	case *types.Var:
		return e.full() + " is a field, not a method: calls through it are not followed"
	case *types.Func:
		text := fmt.Sprintf("%s is declared as %s.%s", e.full(), receiver(found), found.Name())
		if found.Pkg() != nil && found.Pkg() != pkg {
			text += " by the package " + found.Pkg().Path()
		}
		return text + "; name that"
	}
	return ""
}

// functions yields the functions and methods of a package, with the names that entries have for them.
func functions(pkg *types.Package) func(yield func(*types.Func, string) bool) {
	return func(yield func(*types.Func, string) bool) {
		for _, name := range pkg.Scope().Names() {
			switch obj := pkg.Scope().Lookup(name).(type) {
			case *types.Func:
				if !yield(obj, name) {
					return
				}
			case *types.TypeName:
				for fn := range methods(obj) {
					if !yield(fn, name+"."+fn.Name()) {
						return
					}
				}
			}
		}
	}
}

func methods(obj *types.TypeName) func(yield func(*types.Func) bool) {
	return func(yield func(*types.Func) bool) {
		named, ok := types.Unalias(obj.Type()).(*types.Named)
		if !ok {
			return
		}
		for m := range named.Methods() {
			if !yield(m) {
				return
			}
		}
		if it, ok := named.Underlying().(*types.Interface); ok {
			for m := range it.ExplicitMethods() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// nearest is the name with the smallest distance to want, if that is at most half of its letters.
func nearest(want string, names []string) string {
	best, least := "", len(want)/2+1
	for _, name := range names {
		d := distance(strings.ToLower(want), strings.ToLower(name))
		if d < least || d == least && best != "" && name < best {
			best, least = name, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
