package poolfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fields are those of the lists in a file.
var fields = [...]string{Release: "release", Retain: "retain", View: "view", Invalidate: "invalidate"}

// decode reads a file. It returns all errors in it, each with its line.
func decode(data []byte, file string) ([]pool, error) {
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil // empty
	case err != nil && (strings.Contains(err.Error(), "unknown anchor") || strings.Contains(err.Error(), "alphabetic or numeric")):
		return nil, fmt.Errorf("%s: %w: a name that begins with * is written in quotes", file, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r := reader{file: file}
	if dec.Decode(&second) == nil {
		r.wrong(&second, "a second document; the file has one list of pools")
	}
	r.mapping(doc.Content[0], "the file", []string{"pools"}, func(_ string, list *yaml.Node) {
		for _, n := range r.sequence(list, "pools", "- package: example.com/bufs") {
			r.pool(n)
		}
	})
	return r.pools, errors.Join(r.errs...)
}

// A reader collects the pools of a file, and what is wrong with it.
type reader struct {
	file  string
	pools []pool
	errs  []error
}

func (r *reader) wrong(at *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, at.Line, fmt.Sprintf(format, args...)))
}

// mapping calls each for the fields of a mapping.
func (r *reader) mapping(n *yaml.Node, what string, known []string, each func(field string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "%s has the fields %s", what, strings.Join(known, ", "))
		return
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case seen[key.Value]:
			r.wrong(key, "%s has two fields %s", what, key.Value)
		case slices.Contains(known, key.Value):
			each(key.Value, n.Content[i+1])
		case nearest(key.Value, known) != "":
			r.wrong(key, "%s has no field %s; %s is nearest", what, key.Value, nearest(key.Value, known))
		default:
			r.wrong(key, "%s has no field %s, but %s", what, key.Value, strings.Join(known, ", "))
		}
		seen[key.Value] = true
	}
}

// sequence is the elements of a list.
func (r *reader) sequence(n *yaml.Node, field, example string) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	r.wrong(n, "%s is a list, as in %s", field, example)
	return nil
}

// text is a scalar; "" and an error if it is none.
func (r *reader) text(n *yaml.Node, field string) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
		r.wrong(n, "%s: want a name", field)
		return ""
	}
	return n.Value
}

// pool reads the description of one package.
func (r *reader) pool(n *yaml.Node) {
	p := pool{line: n.Line}
	before := len(r.errs)
	r.mapping(n, "a pool", append([]string{"package", "version"}, fields[:]...), func(field string, value *yaml.Node) {
		switch field {
		case "package":
			p.pkg = r.text(value, field)
			if _, err := path.Match(p.pkg, ""); err != nil {
				r.wrong(value, "package %s: %v", p.pkg, err)
			}
			if strings.HasPrefix(p.pkg, ".") || strings.HasPrefix(p.pkg, "/") {
				r.wrong(value, "package %s: want an import path, as in example.com/bufs", p.pkg)
			}
		case "version": // for its readers
		default:
			effect := slices.Index(fields[:], field)
			for _, n := range r.sequence(value, field, "[Put, Buf.Release]") {
				if text := r.text(n, field); text != "" {
					e, err := parse(text)
					if err != nil {
						r.wrong(n, "%s: %v", field, err)
					}
					e.effect, e.line = Effect(effect), n.Line
					p.entries = append(p.entries, e)
				}
			}
		}
	})
	switch {
	case len(r.errs) > before:
		return
	case p.pkg == "":
		r.wrong(n, "a pool has no package")
	case len(p.entries) == 0:
		r.wrong(n, "package %s: no function is named, by release, retain, view or invalidate", p.pkg)
	}
	r.pools = append(r.pools, p)
}

// parse reads Func, Type.Method or *.Method, and the argument in parentheses that may follow.
func parse(text string) (entry, error) {
	e := entry{text: text, name: strings.TrimSpace(text)}
	if rest, ok := strings.CutPrefix(e.name, "(*"); ok { // as Go writes a method
		typ, method, _ := strings.Cut(rest, ")")
		return e, fmt.Errorf("%q: write %s%s", text, typ, method)
	}
	if name, arg, ok := strings.Cut(e.name, "("); ok {
		e.name, e.arg, ok = name, strings.TrimSuffix(arg, ")"), strings.HasSuffix(arg, ")")
		if ok && e.arg == "" {
			return e, fmt.Errorf("%q: write %s", text, name)
		}
		if !ok {
			return e, fmt.Errorf("%q: want Func(argument) or Type.Method(argument)", text)
		}
	}
	if typ, name, ok := strings.Cut(e.name, "."); ok {
		e.typ, e.name = strings.TrimPrefix(typ, "*"), name
		if typ == "*" {
			e.typ = "*"
		}
		if typ, _, generic := strings.Cut(e.typ, "["); generic {
			return e, fmt.Errorf("%q: write %s.%s, without type parameters", text, typ, name)
		}
	}
	if e.name == "" || strings.ContainsAny(e.name, ".*[]/, ") {
		return e, fmt.Errorf("%q: want Func or Type.Method", text)
	}
	return e, nil
}
