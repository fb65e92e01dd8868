// Package poolfile holds what functions do with references to pooled memory, as data: which end one, which
// add one, and whose results are bytes of one. builtin.yaml has the contracts of known pools; a project adds
// its own in .tarnvet.yaml.
package poolfile

import (
	_ "embed"
	"fmt"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// An Effect is what a call does with one of its arguments.
type Effect uint8

const (
	Release    Effect = iota // ends the reference: it goes back to its pool
	Retain                   // adds a reference
	View                     // the results are bytes of the argument, valid until its reference ends
	Invalidate               // ends the views of the argument, but not its reference
)

// A Call is one effect of a function. Arguments are numbered as in package ssa: the receiver first.
type Call struct {
	Effect Effect
	Arg    int
}

// A Set is the contracts that apply to a program.
type Set struct {
	pools []pool
	cache sync.Map // *types.Func: []Call
	byPkg sync.Map // import path: []*pool
	user  string   // the project's file; "" if there is none
}

// A pool is the functions of one package, as a file describes them.
type pool struct {
	pkg     string // import path; * stands for one element of it
	line    int
	entries []entry
	user    bool // the project's file has it
}

// An entry is one function or method and its effect.
type entry struct {
	effect    Effect
	typ, name string // typ is "" for a function, "*" for any type
	arg       string
	text      string
	line      int
}

//go:embed builtin.yaml
var builtin []byte

// FileName is the project's file, looked for in the directory of the package and in those above it.
const FileName = ".tarnvet.yaml"

// otherName is a name that such files often have; Load refuses it, since a file that is not read would look like a clean result.
const otherName = ".tarnvet.yml"

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
	if filepath.Base(file) == otherName {
		return nil, fmt.Errorf("%s: the name of this file is %s", file, FileName)
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
		for _, name := range []string{FileName, otherName} {
			if name = filepath.Join(dir, name); exists(name) {
				return name
			}
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

// read adds what a file describes.
func (s *Set) read(data []byte, file string) error {
	list, err := decode(data, file)
	for i := range list {
		list[i].user = s.user != ""
	}
	s.pools = append(s.pools, list...)
	return err
}

func (p *pool) matches(pkg string) bool {
	ok, err := path.Match(p.pkg, pkg)
	return err == nil && ok
}

// Covers reports whether a package has contracts: it implements a pool.
func (s *Set) Covers(pkg string) bool { return len(s.of(pkg)) > 0 }

// of are the pools of a package.
func (s *Set) of(pkg string) []*pool {
	if known, ok := s.byPkg.Load(pkg); ok {
		return known.([]*pool)
	}
	var list []*pool
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
			if !e.means(typ, fn.Name()) {
				continue
			}
			if arg, err := e.argument(fn); err == nil && !slices.Contains(list, Call{e.effect, arg}) {
				list = append(list, Call{e.effect, arg})
			}
		}
	}
	s.cache.Store(fn, list)
	return list
}

// means reports whether an entry is about a function of a name, or about the method of a type.
func (e entry) means(typ, name string) bool {
	return e.name == name && (e.typ == typ || e.typ == "*" && typ != "")
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
// hold a reference and is no context, and otherwise the receiver.
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
	n, err := strconv.Atoi(e.arg)
	for i := range params.Len() {
		v := params.At(i)
		switch {
		case e.arg == "" && Holds(v.Type()) && !isContext(v.Type()) && (first == 0 || e.effect == Release):
			return first + i, nil
		case e.arg != "" && (v.Name() == e.arg || err == nil && n == i+1):
			if !Holds(v.Type()) {
				return 0, fmt.Errorf("the parameter %s is %v, which leads to no memory", e.arg, v.Type())
			}
			return first + i, nil
		}
	}
	switch {
	case e.arg == "receiver":
		return 0, fmt.Errorf("%s is a function, and has no receiver", fn.Name())
	case e.arg != "":
		return 0, fmt.Errorf("%s has no parameter %s; it has (%s)", fn.Name(), e.arg, parameters(params))
	case first == 0:
		return 0, fmt.Errorf("%s has no parameter that holds a reference", fn.Name())
	}
	return 0, nil
}

func isContext(typ types.Type) bool {
	named, ok := types.Unalias(typ).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "context" && named.Obj().Name() == "Context"
}

// parameters lists parameters by what an entry may call them.
func parameters(params *types.Tuple) string {
	var names []string
	for i := range params.Len() {
		name := params.At(i).Name()
		if name == "" || name == "_" {
			name = strconv.Itoa(i + 1)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
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
