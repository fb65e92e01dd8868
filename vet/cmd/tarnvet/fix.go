package main

import (
	"fmt"
	"go/format"
	"io"
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"

	"github.com/tarn-go/tarn/vet/internal/driver"
)

// applyFixes rewrites the files of the findings that have a fix, and returns the other findings.
func applyFixes(findings []driver.Finding, out io.Writer) (left []driver.Finding, err error) {
	type edit struct {
		from, to int
		text     []byte
	}
	files := map[string][]edit{}
	for _, f := range findings {
		if len(f.SuggestedFixes) == 0 {
			left = append(left, f)
			continue
		}
		fmt.Fprintf(out, "%s: fixed: %s\n", f.Position, f.SuggestedFixes[0].Message)
		for _, e := range f.SuggestedFixes[0].TextEdits {
			from, to := offsets(f, e)
			files[f.Position.Filename] = append(files[f.Position.Filename], edit{from, to, e.NewText})
		}
	}
	for name, edits := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
		for i, e := range edits {
			if i > 0 && e.to > edits[i-1].from {
				return nil, fmt.Errorf("%s: fixes overlap; run tarnvet again", name)
			}
			src = slices.Replace(src, e.from, e.to, e.text...)
		}
		if src, err = format.Source(src); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, src, info.Mode().Perm()); err != nil {
			return nil, err
		}
	}
	return left, nil
}

func offsets(f driver.Finding, e analysis.TextEdit) (from, to int) {
	from = f.Fset.Position(e.Pos).Offset
	to = from
	if e.End.IsValid() {
		to = f.Fset.Position(e.End).Offset
	}
	return from, to
}
