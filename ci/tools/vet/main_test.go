package main

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVet: what does not build, and what go vet reports, is found on the platforms that it is for, in packages, tests and
// external tests, and on no other.
func TestVet(t *testing.T) {
	fset, parsed := token.NewFileSet(), map[string]*ast.File{} // of the standard library
	for _, c := range []struct{ name, file, text, platform, want string }{
		{"a constant", "a.go", "package a\n\nvar N int = 1 << 40\n", "linux/386", "overflows"},
		{"a missing function", "a_windows.go", "package a\n\nvar _ = missing()\n", "windows/amd64", "undefined: missing"},
		{"what another platform's package lacks", "a_windows.go", "package a\n\nimport \"syscall\"\n\nvar _ = syscall.Fork\n", "windows/amd64", "undefined: syscall.Fork"},
		{"a format", "a_darwin.go", "package a\n\nimport \"fmt\"\n\nfunc init() { fmt.Printf(\"%d\", \"a\") }\n", "darwin/arm64", "printf:"},
		{"a format of a wrapper", "a_s390x.go", "package a\n\nimport \"example.org/program/log\"\n\nfunc init() { log.F(\"%d\", \"a\") }\n", "linux/s390x", "printf:"},
		{"a format of another module's wrapper", "a_s390x.go", "package a\n\nimport \"example.org/other\"\n\nfunc init() { other.Logger{}.F(\"%d\", \"a\") }\n", "linux/s390x", "printf:"},
		{"a test", "a_windows_test.go", "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Errorf(\"%d\", \"a\") }\n", "windows/amd64", "printf:"},
		{"an external test", "a_windows_test.go", "package a_test\n\nvar _ = missing()\n", "windows/amd64", "undefined: missing"},
		{"a syntax error", "a_arm64.go", "package a\n\nfunc\n", "linux/arm64", "expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "program")
			write(t, dir, map[string]string{
				"go.mod":      "module example.org/program\n\ngo 1.26.0\n\nrequire example.org/other v0.0.0\n\nreplace example.org/other => ../other\n",
				"log/log.go":  "package log\n\nimport \"fmt\"\n\nfunc F(format string, args ...any) { fmt.Printf(format, args...) }\n",
				"a/doc.go":    "package a\n",
				"a/" + c.file: c.text,
				"b/b.go":      "package b\n\nimport _ \"example.org/program/a\"\n",
				"b/b_test.go": "package b_test\n\nimport _ \"testing\"\n",
				// Of another module's functions only those with a variadic parameter keep their bodies.
				"../other/go.mod":   "module example.org/other\n\ngo 1.26.0\n",
				"../other/other.go": "package other\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\ntype Logger struct{}\n\nfunc (Logger) F(format string, args ...any) { fmt.Printf(format, args...) }\n\nfunc init() { os.Getpid() }\n\nfunc (Logger) init() int { return 1 }\n\nfunc One[T any](t T) T { return t }\n",
				"c/c.go":            "package c\n\nimport _ \"example.org/other\"\n",
			})
			t.Chdir(dir)
			t.Setenv("GOWORK", "off")
			s := &sources{root: dir + string(filepath.Separator), fset: fset, parsed: parsed}
			if err := vet(s, "linux/amd64", []string{"./..."}); err != nil {
				t.Errorf("on linux/amd64: %v", err)
			}
			if err := vet(s, c.platform, []string{"./..."}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("on %s: %v, not %q", c.platform, err, c.want)
			}
		})
	}
}

// Each workspace has its own version of what it imports, and mistakes are found in all.
func TestWorkspaces(t *testing.T) {
	dir := t.TempDir()
	module := func(folder, other string) map[string]string {
		return map[string]string{
			folder + "/go.work":        "go 1.26.0\n\nuse .\n",
			folder + "/go.mod":         "module example.org/" + folder + "\n\ngo 1.26.0\n\nrequire example.org/other v0.0.0\n\nreplace example.org/other => ../" + other + "\n",
			folder + "/use/use.go":     "package use\n\nimport \"example.org/other\"\n\nfunc F() { other.F(\"%d\", \"a\") }\n",
			other + "/go.mod":          "module example.org/other\n\ngo 1.26.0\n",
			other + "/other.go":        "package other\n\nimport \"fmt\"\n\nfunc F(args ...any) { fmt.Print(args...) }\n",
			folder + "/nested/go.mod":  "module example.org/nested\n",
			folder + "/nested/none.go": "package nested\n\nvar _ = missing()\n",
		}
	}
	write(t, dir, module("first", "older"))
	write(t, dir, module("second", "newer"))
	write(t, dir, map[string]string{"newer/other.go": "package other\n\nimport \"fmt\"\n\nfunc F(format string, args ...any) { fmt.Printf(format, args...) }\n"})
	t.Chdir(dir)
	t.Setenv("GOWORK", "")
	s := &sources{root: dir + string(filepath.Separator), fset: token.NewFileSet(), parsed: map[string]*ast.File{}}
	err := vet(s, "linux/amd64", []string{"./first/...", "./second/use"})
	for _, want := range []string{"first/use/use.go:5:12: printf: example.org/other.F call has possible Printf", "second/use/use.go:5:21: printf: example.org/other.F format %d has arg"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// TestSuite: the analyzers are those of this version's go vet.
func TestSuite(t *testing.T) {
	help, err := exec.Command("go", "tool", "vet", "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(help), "Registered analyzers:\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var want, got []string
	for line := range strings.Lines(list) {
		want = append(want, strings.Fields(line)[0])
	}
	for _, a := range suite {
		got = append(got, a.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the suite has\n%v\nand go vet\n%v", got, want)
	}
}

// write writes files below a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
