package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each file has an error on some platforms: in what is compiled there, in its tests, in what it imports, and in a constant's size.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	for name, text := range map[string]string{
		"go.mod":               "module program\n\ngo 1.26.0\n",
		"a.go":                 "package program\n\nimport \"os\"\n\nvar at int = start\n\nfunc name() string { return os.DevNull }\n",
		"start_unix.go":        "//go:build unix\n\npackage program\n\nconst start = 1\n",
		"size.go":              "package program\n\nvar size int = 1 << 31\n",
		"a_test.go":            "package program_test\n\nimport \"syscall\"\n\nvar size = syscall.Stat_t{}.Blocks\n",
		"empty/README":         "no package\n",
		"bodyless/a.go":        "package bodyless\n\nfunc Double(n int) int\n",
		"inner/inner.go":       "package inner\n\nimport \"golang.org/x/absent\"\n\nvar _ = absent.X\n",
		"inner/inner_s390x.go": "package inner\n\nfunc F() { undefined() }\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newChecker(dir)
	for _, tt := range []struct {
		port, pattern string
		want          []string
	}{
		{"linux/amd64", ".", nil},
		{"linux/386", ".", []string{"size.go:3:16: "}},
		{"windows/amd64", ".", []string{"a.go:5:14: undefined: start", "a_test.go:5:"}},
		{"linux/s390x", "./inner", []string{"golang.org/x/absent", "inner_s390x.go:3:12: undefined: undefined"}},
		{"linux/arm64", "./bodyless", []string{"a.go:3:1: Double has no body"}},
		{"linux/arm64", "./empty/...", []string{"no package"}},
		{"linux/arm64", "./missing/...", []string{"missing"}},
		{"linux", ".", []string{"no such platform"}},
	} {
		_, err := c.check(tt.port, []string{tt.pattern})
		if (err != nil) != (tt.want != nil) {
			t.Errorf("%s: %v", tt.port, err)
		}
		for _, want := range tt.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", tt.port, want, err)
			}
		}
	}
}
