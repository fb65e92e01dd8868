package designpage

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b_linux.go", "b_other.go", "a_test.go", "doc.go", "internal/x/a.go", "internal/y/c.go"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const x, y = "| what, in `internal/x` | file |\n|---|---|\n| it | `a.go` |\n\n", "| package | file |\n|---|---|\n| `internal/y` | `c.go` |\n"
	for _, c := range []struct {
		text  string
		wrong []string
	}{
		{"`a.go`, `b_linux.go` and package `internal/x`\n\n" + x + y, nil},
		{"`a.go`, `b_linux.go`\n" + y, []string{"the page does not name internal/x/a.go"}},
		{"`b_other.go`\n" + x + y, []string{"the page does not name a.go"}},
		{"`a.go`, `c.go`, `debug/c.go`\n" + x + y, []string{"the page names c.go, which is not there", "the page does not name b_linux.go", "the page does not name b_other.go"}},
	} {
		if wrong := Compare(c.text, dir, "internal/x", "internal/y"); !slices.Equal(wrong, c.wrong) {
			t.Errorf("%q: %q, not %q", c.text, wrong, c.wrong)
		}
	}
}
