// Package poolfile holds what functions do with references to pooled memory, as data: which end one, which
// add one, and whose results are bytes of one. builtin.yaml has the contracts of known pools; a project adds
// its own in .tarnvet.yaml.
package poolfile

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// An Effect is what a call does with one of its arguments.
type Effect uint8

const (
	Release    Effect = iota // ends the reference: it goes back to its pool
	Retain                   // adds a reference
	View                     // the results are bytes of the argument, valid until its reference ends
	Invalidate               // ends the views of the argument, but not its reference
)

// A Pool describes the functions of one package. Each is written as Func, Type.Method or *.Method for the
// methods of that name of all types, and may name the argument that is meant: Pool.Put(b), Put(2), Copy(receiver).
type Pool struct {
	Package    string   `yaml:"package"`           // import path; * stands for one element of it
	Version    string   `yaml:"version,omitempty"` // of the module, for the reader
	Release    []string `yaml:"release,omitempty"`
	Retain     []string `yaml:"retain,omitempty"`
	View       []string `yaml:"view,omitempty"`
	Invalidate []string `yaml:"invalidate,omitempty"`
}

func (p *Pool) lists() [4][]string {
	return [...][]string{Release: p.Release, Retain: p.Retain, View: p.View, Invalidate: p.Invalidate}
}

var fields = [...]string{Release: "release", Retain: "retain", View: "view", Invalidate: "invalidate"}

// A Call is one effect of a function. Arguments are numbered as in package ssa: the receiver first.
type Call struct {
	Effect Effect
	Arg    int
}

// A Set is the contracts that apply to a program.
type Set struct {
	pools []loaded
	cache sync.Map // *types.Func: []Call
	byPkg sync.Map // import path: []*loaded
	user  string   // the project's file; "" if there is none
}

type loaded struct {
	Pool
	entries []entry
	user    bool
}

type entry struct {
	effect    Effect
	typ, name string // typ is "" for a function, "*" for any type
	arg       string
	text      string
}

//go:embed builtin.yaml
var builtin []byte

// FileName is the project's file, looked for in the directory of the package and in those above it.
const FileName = ".tarnvet.yaml"

// Builtin returns the contracts of known pools.
var Builtin = sync.OnceValues(func() (*Set, error) {
	s := &Set{}
	return s, s.read(builtin, "builtin.yaml")
})

// Load returns the built-in contracts and those of a project's file.
func Load(file string) (*Set, error) {
	base, err := Builtin()
	if err != nil || file == "" {
		return base, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &Set{pools: slices.Clone(base.pools), user: file}
	return s, s.read(data, file)
}

// Find is the project's file for a package in dir; "" if there is none. The search ends at the root of the
// repository.
func Find(dir string) string {
	for {
		if name := filepath.Join(dir, FileName); exists(name) {
			return name
		}
		up := filepath.Dir(dir)
		if up == dir || exists(filepath.Join(dir, ".git")) {
			return ""
		}
		dir = up
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func (s *Set) read(data []byte, file string) error {
	var content struct {
		Pools []Pool `yaml:"pools"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&content); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i, p := range content.Pools {
		if p.Package == "" {
			return fmt.Errorf("%s: pool %d has no package", file, i+1)
		}
		if _, err := path.Match(p.Package, ""); err != nil {
			return fmt.Errorf("%s: package %s: %w", file, p.Package, err)
		}
		l := loaded{Pool: p, user: s.user != ""}
		for effect, list := range p.lists() {
			for _, text := range list {
				e, err := parse(text)
				if err != nil {
					return fmt.Errorf("%s: package %s: %s: %w", file, p.Package, fields[effect], err)
				}
				e.effect = Effect(effect)
				l.entries = append(l.entries, e)
			}
		}
		s.pools = append(s.pools, l)
	}
	return nil
}

func parse(text string) (entry, error) {
	e := entry{text: text, name: strings.TrimSpace(text)}
	if name, arg, ok := strings.Cut(e.name, "("); ok {
		e.name, e.arg, ok = name, strings.TrimSuffix(arg, ")"), strings.HasSuffix(arg, ")")
		if !ok || e.arg == "" {
			return e, fmt.Errorf("%q: want Func(argument) or Type.Method(argument)", text)
		}
	}
	if typ, name, ok := strings.Cut(e.name, "."); ok {
		e.typ, e.name = strings.TrimPrefix(typ, "*"), name
		if typ == "*" {
			e.typ = "*"
		}
	}
	if e.name == "" || strings.ContainsAny(e.name, ".* ") {
		return e, fmt.Errorf("%q: want Func or Type.Method", text)
	}
	return e, nil
}

func (p *loaded) matches(pkg string) bool {
	ok, err := path.Match(p.Package, pkg)
	return err == nil && ok
}

// Covers reports whether a package has contracts: it implements a pool.
func (s *Set) Covers(pkg string) bool { return len(s.of(pkg)) > 0 }

// Unmatched lists the packages of the project's file that none of some import paths is: one that is misspelt has no effect.
func (s *Set) Unmatched(paths map[string]bool) (list []string) {
	for i := range s.pools {
		p := &s.pools[i]
		if !p.user || slices.Contains(list, p.Package) {
			continue
		}
		found := false
		for path := range paths {
			found = found || p.matches(path)
		}
		if !found {
			list = append(list, p.Package)
		}
	}
	return list
}

// of are the pools of a package.
func (s *Set) of(pkg string) []*loaded {
	if known, ok := s.byPkg.Load(pkg); ok {
		return known.([]*loaded)
	}
	var list []*loaded
	for i := range s.pools {
		if s.pools[i].matches(pkg) {
			list = append(list, &s.pools[i])
		}
	}
	s.byPkg.Store(pkg, list)
	return list
}

// Lookup returns the effects of a function or method.
func (s *Set) Lookup(fn *types.Func) []Call {
	if fn == nil || fn.Pkg() == nil {
		return nil
	}
	if known, ok := s.cache.Load(fn); ok {
		return known.([]Call)
	}
	var list []Call
	pools := s.of(fn.Pkg().Path())
	if len(pools) == 0 {
		return nil
	}
	typ := receiver(fn)
	for _, p := range pools {
		for _, e := range p.entries {
			if e.name != fn.Name() || e.typ != typ && !(e.typ == "*" && typ != "") {
				continue
			}
			if arg, err := e.argument(fn); err == nil {
				list = append(list, Call{e.effect, arg})
			}
		}
	}
	s.cache.Store(fn, list)
	return list
}

// receiver is the name of the type of which fn is a method.
func receiver(fn *types.Func) string {
	r := fn.Signature().Recv()
	if r == nil {
		return ""
	}
	typ := types.Unalias(r.Type())
	if p, ok := typ.(*types.Pointer); ok {
		typ = types.Unalias(p.Elem())
	}
	if named, ok := typ.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}

// argument is the argument that an entry means. Without a name it is, of a release, the first parameter that can
// hold a reference, and otherwise the receiver.
func (e entry) argument(fn *types.Func) (int, error) {
	sig := fn.Signature()
	first := 0
	if sig.Recv() != nil {
		first = 1
	}
	params := sig.Params()
	if e.arg == "receiver" && first == 1 {
		return 0, nil
	}
	if n, err := strconv.Atoi(e.arg); err == nil && n >= 1 && n <= params.Len() {
		return first + n - 1, nil
	}
	for i := range params.Len() {
		v := params.At(i)
		if e.arg != "" && v.Name() == e.arg || e.arg == "" && Holds(v.Type()) && (first == 0 || e.effect == Release) {
			return first + i, nil
		}
	}
	if e.arg != "" {
		return 0, fmt.Errorf("%s has no parameter %s", fn.Name(), e.arg)
	}
	if first == 0 {
		return 0, fmt.Errorf("%s has no parameter that holds a reference", fn.Name())
	}
	return 0, nil
}

// Holds reports whether a value of the type can be, or contain, a reference to memory.
func Holds(typ types.Type) bool {
	switch u := typ.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Interface:
		return true
	case *types.Struct:
		for f := range u.Fields() {
			if Holds(f.Type()) {
				return true
			}
		}
	}
	return false
}

// Check returns an error for each name in the project's file that pkg does not declare, if the file describes it.
func (s *Set) Check(pkg *types.Package) error {
	var list []error
	for i := range s.pools {
		p := &s.pools[i]
		if !p.user || p.Package != pkg.Path() {
			continue
		}
		for _, e := range p.entries {
			if err := e.check(pkg); err != nil {
				list = append(list, fmt.Errorf("%s: package %s: %s: %w", s.user, p.Package, fields[e.effect], err))
			}
		}
	}
	return errors.Join(list...)
}

// check finds the functions that an entry means.
func (e entry) check(pkg *types.Package) error {
	found, names := false, []string{}
	for fn, name := range functions(pkg) {
		names = append(names, name)
		typ := receiver(fn)
		if e.name != fn.Name() || e.typ != typ && !(e.typ == "*" && typ != "") {
			continue
		}
		found = true
		if _, err := e.argument(fn); err != nil && e.typ != "*" {
			return fmt.Errorf("%q: %w", e.text, err)
		}
	}
	if found {
		return nil
	}
	want := e.name
	if e.typ != "" {
		want = e.typ + "." + e.name
	}
	if near := nearest(want, names); near != "" {
		return fmt.Errorf("%q: there is no %s; %s is nearest", e.text, want, near)
	}
	return fmt.Errorf("%q: there is no %s", e.text, want)
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
	slices.Sort(names)
	for _, name := range names {
		if d := distance(strings.ToLower(want), strings.ToLower(name)); d < least {
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
