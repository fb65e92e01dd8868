package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository.
const root = "../../.."

// module writes a program that uses package tarn of this repository.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	all := map[string]string{
		"go.mod": "module program\n\ngo 1.25.0\n\nrequire github.com/tarn-go/tarn v0.0.0\n\nreplace github.com/tarn-go/tarn => " + here + "\n",
		"go.sum": string(sum),
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	return dir
}

const leaky = `package program

import "github.com/tarn-go/tarn"

func Leak(p *tarn.Pool, early bool) int {
	b := p.Get(10)
	if early {
		return 0
	}
	n := len(b.Bytes())
	b.Free()
	return n
}
`

const sliced = `package program

import "github.com/tarn-go/tarn"

func First(p *tarn.Pool, n int) tarn.Buffer {
	b := p.Get(100)
	b = b.Slice(0, n)
	return b
}
`

const clean = `package program

import "github.com/tarn-go/tarn"

func Clean(p *tarn.Pool) { p.Get(1).Free() }
`

func TestExitCodes(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  int
	}{
		"clean":      {map[string]string{"a.go": clean}, nil, 0},
		"a finding":  {map[string]string{"a.go": leaky}, nil, 3},
		"no program": {map[string]string{"a.go": "package program\n\nfunc f( {}\n"}, nil, 1},
		"bad flag":   {map[string]string{"a.go": clean}, []string{"-nonsense"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out, complaints bytes.Buffer
			args := append([]string{"-C", module(t, tt.files)}, tt.args...)
			if got := run(args, &out, &complaints); got != tt.want {
				t.Errorf("exit %d, want %d\n%s%s", got, tt.want, &out, &complaints)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	var out, complaints bytes.Buffer
	if code := run([]string{"-C", module(t, map[string]string{"a.go": leaky}), "-json"}, &out, &complaints); code != 3 {
		t.Fatalf("exit %d\n%s", code, &complaints)
	}
	var reports []report
	if err := json.Unmarshal(out.Bytes(), &reports); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 || reports[0].Kind != "leak" || !strings.Contains(reports[0].Position, "a.go:6:") || len(reports[0].Path) == 0 {
		t.Errorf("%+v", reports)
	}
}

func TestFix(t *testing.T) {
	dir := module(t, map[string]string{"a.go": sliced})
	var out, complaints bytes.Buffer
	if code := run([]string{"-C", dir, "-fix"}, &out, &complaints); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, &out, &complaints)
	}
	fixed, err := os.ReadFile(filepath.Join(dir, "a.go"))
	if err != nil || !strings.Contains(string(fixed), "b = b.Narrow(0, n)") {
		t.Errorf("%v\n%s", err, fixed)
	}
}

func TestPathIsPrinted(t *testing.T) {
	var out, complaints bytes.Buffer
	run([]string{"-C", module(t, map[string]string{"a.go": leaky}), "-path"}, &out, &complaints)
	if !strings.Contains(out.String(), "this condition is true") || !strings.Contains(out.String(), "it is lost here") {
		t.Errorf("%s%s", &out, &complaints)
	}
}

func TestDirectivesAreCounted(t *testing.T) {
	src := strings.Replace(leaky, "p.Get(10)", "p.Get(10) //tarn:owned the program ends", 1)
	var out, complaints bytes.Buffer
	dir := module(t, map[string]string{"a.go": src})
	if code := run([]string{"-C", dir}, &out, &complaints); code != 0 {
		t.Errorf("exit %d\n%s%s", code, &out, &complaints)
	}
	if code := run([]string{"-C", dir, "-directives"}, &out, &complaints); code != 0 || !strings.Contains(out.String(), "1 directives") {
		t.Errorf("exit %d\n%s%s", code, &out, &complaints)
	}
}

// Under go vet the same is found.
func TestUnderGoVet(t *testing.T) {
	dir := module(t, map[string]string{"a.go": leaky})
	tool := filepath.Join(t.TempDir(), "tarnvet")
	build := exec.Command("go", "build", "-o", tool, ".")
	build.Env = append(os.Environ(), "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vet := exec.Command("go", "vet", "-vettool="+tool, ".")
	vet.Dir = dir
	out, err := vet.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a.go:6:12: leak: b from p.Get is not freed on the path that returns at line 8") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A leak planted into an example is found, and the message names the line that took the reference, the
// line where it is lost, and the cure.
func TestLeakPlantedInAnExample(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod = bytes.ReplaceAll(mod, []byte("=> .."), []byte("=> "+here))
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600); err != nil {
		t.Fatal(err)
	}
	var name string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "forward.go" && name == "" {
			name = path
		}
		return err
	})
	if err != nil || name == "" {
		t.Fatalf("no example to plant a leak in: %v", err)
	}
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	planted := append(src, []byte(`
func firstByte(pool *tarn.Pool, r io.Reader) (byte, error) {
	b := pool.Get(1)
	if _, err := io.ReadFull(r, b.Bytes()); err != nil {
		return 0, err
	}
	first := b.Bytes()[0]
	b.Free()
	return first, nil
}
`)...)
	if err := os.WriteFile(name, planted, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	var out, complaints bytes.Buffer
	code := run([]string{"-C", dir, "-test=false", "./..."}, &out, &complaints)
	want := "leak: b from pool.Get is not freed on the path that returns at line "
	if code != 3 || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "call b.Free() there, or defer it") {
		t.Errorf("exit %d\n%s%s", code, &out, &complaints)
	}
}
