package vet

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// libraries count references by methods that are named like Tarn's.
var libraries = []string{
	"google.golang.org/grpc",
	"google.golang.org/grpc/mem",
	"google.golang.org/grpc/encoding/...",
	"google.golang.org/grpc/internal/transport/...",
	"github.com/apache/arrow-go/v18/arrow",
	"github.com/apache/arrow-go/v18/arrow/memory",
	"github.com/apache/arrow-go/v18/arrow/array",
	"golang.org/x/net/http2/...",
	"gvisor.dev/gvisor/pkg/buffer",
	"gvisor.dev/gvisor/pkg/refs",
	"gvisor.dev/gvisor/pkg/tcpip/stack",
}

// tool builds the analyser.
func tool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tarnvet")
	build := exec.Command("go", "build", "-o", path, "./cmd/tarnvet")
	build.Dir = "../../vet"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// silent runs the analyser and fails the test if it reports anything.
func silent(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestProgramsThatUseBoth(t *testing.T) {
	silent(t, exec.Command(tool(t), "./..."))
}

func TestLibrariesAsTheyAre(t *testing.T) {
	silent(t, exec.Command(tool(t), append([]string{"-test=false"}, libraries...)...))
}

// The analyser skips packages that do not import package tarn, so copies of the libraries' packages that
// import it are analysed. They have to be compiled: with TARN_LONG=1 the test takes a minute.
func TestLibrariesThatImportTarn(t *testing.T) {
	targets := []string{"google.golang.org/grpc/mem", "github.com/apache/arrow-go/v18/arrow/memory"}
	if os.Getenv("TARN_LONG") != "" {
		targets = []string{
			"google.golang.org/grpc/internal/transport", "github.com/apache/arrow-go/v18/arrow/memory",
			"golang.org/x/net/http2", "gvisor.dev/gvisor/pkg/buffer",
		}
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Dir}} {{$.Dir}} {{$.Name}} {{$.ImportPath}}{{end}}"}, targets...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := program(t)
	replaced := map[string]string{}
	var patterns []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 5 || !slices.ContainsFunc(targets, func(p string) bool { return strings.HasPrefix(p, f[0]) }) {
			continue
		}
		module, from, pkg, name := f[0], f[1], f[2], f[3]
		to := filepath.Join(dir, "copies", filepath.FromSlash(module))
		if replaced[module] == "" {
			replaced[module] = to
			write(t, filepath.Join(to, "go.mod"), read(t, filepath.Join(from, "go.mod")))
		}
		rel, err := filepath.Rel(from, pkg)
		if err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(pkg)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range files {
			if ext := filepath.Ext(e.Name()); e.Type().IsRegular() && (ext == ".go" || ext == ".s" || ext == ".h") && !strings.HasSuffix(e.Name(), "_test.go") {
				write(t, filepath.Join(to, rel, e.Name()), read(t, filepath.Join(pkg, e.Name())))
			}
		}
		write(t, filepath.Join(to, rel, "imports_tarn.go"), "package "+name+"\n\nimport _ \"github.com/tarn-go/tarn\"\n")
		patterns = append(patterns, f[4])
	}
	if len(replaced) != len(targets) {
		t.Fatalf("copied %v", replaced)
	}
	mod := read(t, filepath.Join(dir, "go.mod"))
	for module, to := range replaced {
		mod += "\nreplace " + module + " => " + to + "\n"
	}
	write(t, filepath.Join(dir, "go.mod"), mod)
	t.Logf("%d packages of %d modules", len(patterns), len(replaced))
	cmd := exec.Command(tool(t), append([]string{"-C", dir, "-test=false"}, patterns...)...)
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod -trimpath", "GOWORK=off")
	silent(t, cmd)
}

// The analyser reports a planted mistake.
func TestALeakIsFound(t *testing.T) {
	dir := program(t)
	write(t, filepath.Join(dir, "users.go"), read(t, "users.go"))
	write(t, filepath.Join(dir, "leak.go"), `package vet

import "github.com/tarn-go/tarn"

func leak(p *tarn.Pool, m *message) {
	b := p.Get(10)
	m.Free()
	copy(b.Bytes(), "text")
}
`)
	cmd := exec.Command(tool(t), "-C", dir, ".")
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Count(string(out), ": leak: ") != 1 || !strings.Contains(string(out), "leak.go:6:12: leak: b from p.Get is not freed") {
		t.Errorf("%v\n%s", err, out)
	}
}

// program creates a module that requires the same modules as this one.
func program(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), strings.ReplaceAll(read(t, "go.mod"), "=> ../..", "=> "+root))
	write(t, filepath.Join(dir, "go.sum"), read(t, "go.sum"))
	return dir
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
