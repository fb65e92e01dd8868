package report

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A directive is a comment that allows what would otherwise be reported:
//
//	//tarn:owned <why>            the reference taken on this line is freed where the analyser cannot see it
//	//tarn:allow <kinds> <why>    findings of these kinds (leak, use, ...; comma-separated, or "all")
//
// It applies to its own line and the next; in the doc comment of a function, to the function; before the
// package clause, to the file. It needs a reason, and must allow at least one finding.
type note struct {
	pos        token.Pos
	file       string
	from, to   int // lines
	kinds      []Kind
	used       bool
	incomplete string
}

type directives struct{ list []*note }

const (
	ownedPrefix = "//tarn:owned"
	allowPrefix = "//tarn:allow"
)

// Directives lists the directives of a file.
func Directives(file *ast.File) []*ast.Comment {
	var list []*ast.Comment
	for _, group := range file.Comments {
		for _, c := range group.List {
			if parseDirective(c.Text) != nil {
				list = append(list, c)
			}
		}
	}
	return list
}

// named are the kinds that a directive can name.
func named() []Kind { return []Kind{Leak, Use, Double, Escape, Copy, Write, Contract, Comment, "all"} }

func readDirectives(pass *analysis.Pass) *directives {
	d := &directives{}
	for _, file := range pass.Files {
		spans := map[*ast.CommentGroup]ast.Node{}
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Doc != nil {
				spans[fn.Doc] = fn
			}
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				n := parseDirective(c.Text)
				if n == nil {
					continue
				}
				at := pass.Fset.Position(c.Pos())
				n.pos, n.file, n.from, n.to = c.Pos(), at.Filename, at.Line, at.Line+1
				if fn := spans[group]; fn != nil {
					n.to = pass.Fset.Position(fn.End()).Line
				} else if c.Pos() < file.Package {
					n.from, n.to = 0, 1<<30
				}
				d.list = append(d.list, n)
			}
		}
	}
	return d
}

// parseDirective returns nil for any other comment.
func parseDirective(text string) *note {
	if i := strings.Index(text[2:], " //"); i >= 0 {
		text = text[:i+2] // another comment follows on the line
	}
	switch {
	case strings.HasPrefix(text, ownedPrefix):
		why := strings.TrimSpace(text[len(ownedPrefix):])
		n := &note{kinds: []Kind{Leak}}
		if why == "" {
			n.incomplete = ownedPrefix + " needs a reason: where is the reference freed?"
		}
		return n
	case strings.HasPrefix(text, allowPrefix):
		kinds, why, _ := strings.Cut(strings.TrimSpace(text[len(allowPrefix):]), " ")
		n := &note{}
		for _, k := range strings.Split(kinds, ",") {
			if !slices.Contains(named(), Kind(k)) {
				n.incomplete = fmt.Sprintf("%s names no kind of finding: %q is none of %v", allowPrefix, k, named())
			}
			n.kinds = append(n.kinds, Kind(k))
		}
		if strings.TrimSpace(why) == "" && n.incomplete == "" {
			n.incomplete = allowPrefix + " needs a reason"
		}
		return n
	}
	return nil
}

// allow reports whether a directive allows a finding of this kind at one of these positions.
func (d *directives) allow(fset *token.FileSet, kind Kind, at ...token.Pos) bool {
	found := false
	for _, n := range d.list {
		if n.incomplete != "" || !slices.Contains(n.kinds, kind) && !slices.Contains(n.kinds, "all") {
			continue
		}
		for _, pos := range at {
			if p := fset.Position(pos); p.Filename == n.file && p.Line >= n.from && p.Line <= n.to {
				n.used, found = true, true
			}
		}
	}
	return found
}

// unused reports directives without a reason and those that allow nothing.
func (d *directives) unused(pass *analysis.Pass) {
	for _, n := range d.list {
		text := n.incomplete
		if text == "" && !n.used {
			text = "directive: nothing is reported here that this would allow; remove it"
		}
		if text != "" {
			pass.Report(analysis.Diagnostic{Pos: n.pos, Category: string(Directive), Message: text})
		}
	}
}
