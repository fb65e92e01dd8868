package main

import (
	"bytes"
	"fmt"
	"go/format"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/natefinch/atomic"
	"golang.org/x/tools/go/analysis"

	"github.com/tarn-go/tarn/vet/internal/driver"
)

// fixes are what is to be changed in one file.
type fixes struct {
	read  *token.File // as the analyser has it
	edits []edit
	what  []string // for the user
}

type edit struct {
	from, to int
	text     []byte
}

// applyFixes rewrites the files of the findings that have a fix, and returns the other findings. The files were read after began.
// Each file that is rewritten is reported; when one cannot be, it stays as it was, and so do those after it.
func applyFixes(findings []driver.Finding, began time.Time, out io.Writer) (left []driver.Finding, err error) {
	files := map[string]*fixes{}
	for _, f := range findings {
		if len(f.SuggestedFixes) == 0 {
			left = append(left, f)
			continue
		}
		name := f.Position.Filename
		if files[name] == nil {
			files[name] = &fixes{read: f.Fset.File(f.Pos)}
		}
		files[name].what = append(files[name].what, fmt.Sprintf("%s: fixed: %s\n", f.Position, f.SuggestedFixes[0].Message))
		for _, e := range f.SuggestedFixes[0].TextEdits {
			from, to := offsets(f, e)
			files[name].edits = append(files[name].edits, edit{from, to, e.NewText})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := files[name].apply(name, began); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(out, strings.Join(files[name].what, "")); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// apply gives the file, or the one that a symbolic link leads to, its new content at once: a program that reads it, and the disk after
// a crash, have the old or the new one.
func (f *fixes) apply(name string, began time.Time) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if info.ModTime().After(began) || !f.sameLines(src) {
		return fmt.Errorf("%s: changed while it was analysed; run tarnvet again", name)
	}
	slices.SortFunc(f.edits, func(a, b edit) int { return b.from - a.from })
	for i, e := range f.edits {
		if i > 0 && e.to > f.edits[i-1].from {
			return fmt.Errorf("%s: fixes overlap; run tarnvet again", name)
		}
		src = slices.Replace(src, e.from, e.to, e.text...)
	}
	if src, err = format.Source(src); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return atomic.WriteFile(name, bytes.NewReader(src))
}

// sameLines reports whether src has the lengths of the lines that were analysed.
func (f *fixes) sameLines(src []byte) bool {
	now := token.NewFileSet().AddFile("", -1, len(src))
	now.SetLinesForContent(src)
	return len(src) == f.read.Size() && slices.Equal(now.Lines(), f.read.Lines())
}

func offsets(f driver.Finding, e analysis.TextEdit) (from, to int) {
	from = f.Fset.Position(e.Pos).Offset
	to = from
	if e.End.IsValid() {
		to = f.Fset.Position(e.End).Offset
	}
	return from, to
}
