package main

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVet: what does not build, and what go vet reports, is found on the platforms that it is for, in packages, tests and
// external tests, and on no other.
func TestVet(t *testing.T) {
	for _, c := range []struct{ name, file, text, platform, want string }{
		{"a constant", "a.go", "package a\n\nvar N int = 1 << 40\n", "linux/386", "overflows"},
		{"a missing function", "a_windows.go", "package a\n\nvar _ = missing()\n", "windows/amd64", "undefined: missing"},
		{"what another platform's package lacks", "a_windows.go", "package a\n\nimport \"syscall\"\n\nvar _ = syscall.Fork\n", "windows/amd64", "undefined: syscall.Fork"},
		{"a format", "a_darwin.go", "package a\n\nimport \"fmt\"\n\nfunc init() { fmt.Printf(\"%d\", \"a\") }\n", "darwin/arm64", "printf:"},
		{"a format of a wrapper", "a_s390x.go", "package a\n\nimport \"example.org/program/log\"\n\nfunc init() { log.F(\"%d\", \"a\") }\n", "linux/s390x", "printf:"},
		{"a test", "a_windows_test.go", "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Errorf(\"%d\", \"a\") }\n", "windows/amd64", "printf:"},
		{"an external test", "a_windows_test.go", "package a_test\n\nvar _ = missing()\n", "windows/amd64", "undefined: missing"},
		{"a syntax error", "a_arm64.go", "package a\n\nfunc\n", "linux/arm64", "expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			for path, text := range map[string]string{
				"go.mod":      "module example.org/program\n\ngo 1.25.0\n",
				"log/log.go":  "package log\n\nimport \"fmt\"\n\nfunc F(format string, args ...any) { fmt.Printf(format, args...) }\n",
				"a/doc.go":    "package a\n",
				"a/" + c.file: c.text,
				"b/b.go":      "package b\n\nimport _ \"example.org/program/a\"\n",
				"b/b_test.go": "package b_test\n\nimport _ \"testing\"\n",
			} {
				os.MkdirAll(filepath.Dir(path), 0o700)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("GOWORK", "off")
			s := &sources{root: dir + string(filepath.Separator), fset: token.NewFileSet(), parsed: map[string]*ast.File{}}
			if err := vet(s, "linux/amd64", []string{"./..."}); err != nil {
				t.Errorf("on linux/amd64: %v", err)
			}
			if err := vet(s, c.platform, []string{"./..."}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("on %s: %v, not %q", c.platform, err, c.want)
			}
		})
	}
}
