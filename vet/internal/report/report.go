// Package report passes findings on: each once, and not where a directive allows it. It says where in the source something is, and what the
// source calls it.
package report

import (
	"fmt"
	"go/token"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Kind is a kind of finding: the diagnostic's category and its name in directives.
type Kind string

// The kinds of findings.
const (
	Leak      Kind = "leak"
	Use       Kind = "use"
	Double    Kind = "double"
	Escape    Kind = "escape"
	Copy      Kind = "copy"
	Write     Kind = "write"
	Contract  Kind = "contract"
	Comment   Kind = "comment"
	Directive Kind = "directive"
)

// A Reporter takes the findings in one package.
type Reporter struct {
	pass  *analysis.Pass
	notes *directives
	seen  map[string]bool
}

// New returns a Reporter for a package.
func New(pass *analysis.Pass) *Reporter {
	return &Reporter{pass, readDirectives(pass), map[string]bool{}}
}

// maxRelated bounds the related positions of a finding: they repeat on long paths.
const maxRelated = 12

// Emit reports a finding once, unless a directive at its line or where the reference was taken allows it.
func (r *Reporter) Emit(d analysis.Diagnostic, taken token.Pos) {
	key := d.Category + r.pass.Fset.Position(d.Pos).String()
	if r.seen[key] {
		return
	}
	r.seen[key] = true
	if r.notes.allow(r.pass.Fset, Kind(d.Category), d.Pos, taken) {
		return
	}
	if len(d.Related) > maxRelated {
		d.Related = slices.Clip(d.Related[:maxRelated])
	}
	r.pass.Report(d)
}

// Unused reports directives without a reason and those that have allowed nothing.
func (r *Reporter) Unused() { r.notes.unused(r.pass) }

// Line is the line of a position.
func (r *Reporter) Line(pos token.Pos) int { return r.pass.Fset.Position(pos).Line }

// Where is a line, with its file's name when it differs from near's.
func (r *Reporter) Where(pos, near token.Pos) string {
	p, q := r.pass.Fset.Position(pos), r.pass.Fset.Position(near)
	if p.Filename != q.Filename {
		return fmt.Sprintf("%s:%d", filepath.Base(p.Filename), p.Line)
	}
	return fmt.Sprintf("line %d", p.Line)
}
