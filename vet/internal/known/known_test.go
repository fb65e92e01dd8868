package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The lists make a run pass or fail: a defect that is missed is told from a version that could not be looked at.
func TestDefects(t *testing.T) {
	in := func(file string) result { return result{Packages: 1, Reports: []report{{At: file + ":1"}}} }
	nothing, broken := result{Packages: 1}, result{Packages: 2, Broken: 1}
	unfetched := fmt.Errorf("example.com/m@v2 %w: dial tcp", errUnfetched)
	for _, tt := range []struct {
		name          string
		expect        expectation
		before, after result
		err           error // of the version after
		row           string
		problems      []string
	}{
		{name: "found", before: in("a.go"), row: "| v1 | 1 | v2 | 0 |"},
		{name: "missed", before: nothing, row: "| v1 | 0 | v2 | 0 |", problems: []string{"not reported any more"}},
		{name: "in another file", before: in("b.go"), row: "| v1 | 0 |", problems: []string{"not reported any more"}},
		{name: "known to be missed", expect: missed, before: nothing, row: "| v1 | 0 |"},
		{name: "found now", expect: missed, before: in("a.go"), row: "| v1 | 1 |", problems: []string{"reported now"}},
		{name: "after it", before: in("a.go"), after: in("a.go"), row: "| v2 | 1 |", problems: []string{"1 reports after the fix"}},
		{name: "broken", before: broken, row: "| v1 | does not compile |", problems: []string{"v1 does not compile: 1 of 2 packages", "at least 1"}},
		{name: "known to be broken", expect: uncompiled, before: broken, row: "| v1 | does not compile |", problems: []string{"at least 1"}},
		{name: "unfetched", before: in("a.go"), err: unfetched, row: "| v2 | cannot be fetched |", problems: []string{"at least 1"}},
		{name: "failed", before: in("a.go"), err: errors.New("not done"), row: "| v2 | failed |", problems: []string{"not done", "at least 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := runner{log: io.Discard, analyse: func(module string, _ []string) (result, error) {
				if strings.HasSuffix(module, "@v1") {
					return tt.before, nil
				}
				return tt.after, tt.err
			}}
			var out strings.Builder
			got := r.defects(&out, []defect{{module: "example.com/m", before: "v1", after: "v2", files: []string{"a.go"}, expect: tt.expect}})
			if !strings.Contains(out.String(), tt.row) {
				t.Errorf("%s, want %s", out.String(), tt.row)
			}
			matches := func(got, want string) bool { return strings.Contains(got, want) }
			if !slices.EqualFunc(got, tt.problems, matches) {
				t.Errorf("%q, want %q", got, tt.problems)
			}
		})
	}
}

// A version that cannot be fetched does not fail a run in which enough others could be.
func TestEnoughAreFetched(t *testing.T) {
	var list []defect
	for i := range enough + 1 {
		list = append(list, defect{module: fmt.Sprintf("example.com/m%d", i), before: "v1", after: "v2", expect: missed})
	}
	r := runner{log: io.Discard, analyse: func(module string, _ []string) (result, error) {
		if strings.HasPrefix(module, "example.com/m0@") {
			return result{}, errUnfetched
		}
		return result{Packages: 1}, nil
	}}
	if got := r.defects(io.Discard, list); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := r.defects(io.Discard, list[:enough]); len(got) != 1 {
		t.Errorf("%q, want one", got)
	}
}

func TestReportsAreClassed(t *testing.T) {
	r := runner{log: io.Discard, analyse: func(string, []string) (result, error) {
		return result{Packages: 1, Lines: 100, Reports: []report{{At: "a.go:1"}, {At: "b.go:2"}, {At: "c.go:3"}}}, nil
	}}
	var out strings.Builder
	got := r.modules(&out, []module{{path: "example.com/m", version: "v1", classes: map[string]class{"a.go:1": realDefect, "b.go:2": falseReport}}})
	if len(got) != 1 || !strings.Contains(got[0], "c.go:3") {
		t.Errorf("%q", got)
	}
	if want := "| example.com/m v1 | 100 | 1 | 3 | 1 | 1 |"; !strings.Contains(out.String(), want) {
		t.Errorf("%s, want %s", out.String(), want)
	}
}

// A module of which many packages do not compile has not been analysed.
func TestModulesCompile(t *testing.T) {
	for broken, problems := range map[int]int{0: 0, 2: 0, 3: 1} {
		r := runner{log: io.Discard, analyse: func(string, []string) (result, error) { return result{Packages: 20, Broken: broken}, nil }}
		if got := r.modules(io.Discard, []module{{path: "example.com/m", version: "v1"}}); len(got) != problems {
			t.Errorf("%d of 20 packages do not compile: %q", broken, got)
		}
	}
}

func TestWithoutNeighbours(t *testing.T) {
	name := filepath.Join(t.TempDir(), "go.mod")
	const before = "module example.com/m\n\nreplace (\n\texample.com/a => ../a\n\texample.com/b => example.com/c v1.0.0\n)\n\nreplace example.com/d v1.2.3 => ./d\n"
	if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := withoutNeighbours(name); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := "module example.com/m\n\nreplace example.com/b => example.com/c v1.0.0\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOfNetwork(t *testing.T) {
	for text, want := range map[string]bool{
		`example.com/x@v1: Get "https://example.com": dial tcp: lookup example.com: no such host`: true,
		"example.com/x@v1: reading https://example.com: 503 Service Unavailable":                  true,
		"module example.com/x@latest found (v1), but does not contain package example.com/x/y":    false,
		"build constraints exclude all Go files in x":                                             false,
	} {
		if ofNetwork(text) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
