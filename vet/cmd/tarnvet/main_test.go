package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/driver"
)

// root is the repository's root directory.
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
		"go.mod": "module program\n\ngo 1.26.0\n\nrequire github.com/tarn-go/tarn v0.0.0\n\nreplace github.com/tarn-go/tarn => " + here + "\n",
		"go.sum": string(sum),
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
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
		"clean":            {map[string]string{"a.go": clean}, nil, 0},
		"a finding":        {map[string]string{"a.go": leaky}, nil, 3},
		"no program":       {map[string]string{"a.go": "package program\n\nfunc f( {}\n"}, nil, 1},
		"sarif":            {map[string]string{"a.go": leaky}, []string{"-sarif"}, 3},
		"sarif of nothing": {map[string]string{"a.go": clean}, []string{"-sarif"}, 0},
		"bad flag":         {map[string]string{"a.go": clean}, []string{"-nonsense"}, 1},
		// The package itself has no error, but one that it imports cannot be loaded.
		"broken import": {map[string]string{
			"a.go":     strings.Replace(leaky, "import ", "import _ \"program/mid\"\nimport ", 1),
			"mid/m.go": "package mid\n\nimport _ \"example.invalid/none\"\nimport _ \"github.com/tarn-go/tarn\"\n",
		}, nil, 1},
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
	var reports []printed
	if err := json.Unmarshal(out.Bytes(), &reports); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 || reports[0].Kind != "leak" || !strings.Contains(reports[0].Position, "a.go:6:") || len(reports[0].Path) == 0 {
		t.Errorf("%+v", reports)
	}
}

// The file of contracts is found in the directory of -C, and a package of it that the program does not have is named.
func TestContracts(t *testing.T) {
	dir := module(t, map[string]string{
		"a.go":         "package program\n\nimport \"program/bufs\"\n\nfunc Use(b *bufs.Buf) int {\n\tb.Release()\n\treturn b.N\n}\n",
		"bufs/bufs.go": "package bufs\n\ntype Buf struct{ N int }\n\nfunc (b *Buf) Release() {}\n",
		"bufz/bufz.go": "package bufz\n\nfunc Put(b *int) {}\n",
		"own.yaml": "pools:\n  - package: program/bufs\n    release: [Buf.Release]\n  - package: program/bufz\n    release: [Put]\n" +
			"  - package: example.com/other\n    release: [Put]\n  - package: program/buf/*\n    release: [Put]\n",
		"misspelt.yaml": "pools:\n  - package: program/bufs\n    release: [Buf.Release]\n  - package: program/buffs\n    release: [Buf.Release]\n",
	})
	var out, complaints bytes.Buffer
	if code := run([]string{"-C", dir, "-config", "own.yaml", "./..."}, &out, &complaints); code != 3 || !strings.Contains(out.String(), "a.go:7:") || strings.Contains(out.String(), "bufs.go") {
		t.Errorf("exit %d\n%s", code, &out)
	}
	if !strings.Contains(complaints.String(), "own.yaml:6: package example.com/other: no package") || strings.Contains(complaints.String(), ":2: ") {
		t.Error(complaints.String())
	}
	complaints.Reset()
	// program/bufz is no package of this run, but it exists.
	if code := run([]string{"-C", dir, "-config", "own.yaml", "."}, &out, &complaints); code != 3 || !strings.Contains(complaints.String(), "own.yaml:4: package program/bufz") {
		t.Errorf("exit %d\n%s", code, &complaints)
	}
	complaints.Reset()
	if code := run([]string{"-C", dir, "-config", "misspelt.yaml", "./..."}, &out, &complaints); code != 1 ||
		!strings.Contains(complaints.String(), "misspelt.yaml:4: package program/buffs: no package of this run has this path, or imports it; program/bufs is nearest") {
		t.Errorf("exit %d\n%s", code, &complaints)
	}
}

// -json=false prints text, as without the flag.
func TestJSONTurnedOff(t *testing.T) {
	var out, complaints bytes.Buffer
	if code := run([]string{"-C", module(t, map[string]string{"a.go": leaky}), "-json=false"}, &out, &complaints); code != 3 || json.Valid(out.Bytes()) {
		t.Errorf("exit %d\n%s%s", code, &out, &complaints)
	}
	if code := run([]string{"-json=perhaps"}, &out, &complaints); code != 1 {
		t.Errorf("-json=perhaps: exit %d", code)
	}
}

// The columns of SARIF count characters, not bytes, and names of files begin at the root of the module.
func TestSARIF(t *testing.T) {
	text := strings.Replace(leaky, "\tb := p.Get(10)", "\t/* ü */ b := p.Get(10)", 1)
	var out, complaints bytes.Buffer
	if code := run([]string{"-C", module(t, map[string]string{"a b.go": text}), "-sarif"}, &out, &complaints); code != 3 {
		t.Fatalf("exit %d\n%s", code, &complaints)
	}
	var log sarifLog
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Results) != 1 {
		t.Fatalf("%+v", log)
	}
	got := log.Runs[0].Results[0]
	want := sarifPlace{sarifFile{"a%20b.go", "%SRCROOT%"}, sarifRegion{6, 20}}
	if got.RuleID != "leak" || log.Runs[0].Tool.Driver.Rules[got.RuleIndex].ID != "leak" || len(got.Locations) != 1 || got.Locations[0].PhysicalLocation != want {
		t.Errorf("%+v", got)
	}
	if len(got.RelatedLocations) == 0 || got.RelatedLocations[0].Message == nil {
		t.Errorf("no related locations: %+v", got)
	}
}

// Every kind of finding is a rule.
func TestRules(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "vet.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules() {
		if r.ID != "directive" && !bytes.Contains(page, []byte("**"+r.ID+"**")) {
			t.Errorf("docs/vet.md does not describe %s", r.ID)
		}
	}
}

func TestFix(t *testing.T) {
	dir := module(t, map[string]string{"real": sliced})
	if err := os.Chmod(filepath.Join(dir, "real"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "a.go")); err != nil {
		t.Skip(err)
	}
	var out, complaints bytes.Buffer
	if code := run([]string{"-C", dir, "-fix"}, &out, &complaints); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, &out, &complaints)
	}
	fixed, err := os.ReadFile(filepath.Join(dir, "a.go"))
	if err != nil || !strings.Contains(string(fixed), "b = b.Narrow(0, n)") {
		t.Errorf("%v\n%s", err, fixed)
	}
	if link, err := os.Readlink(filepath.Join(dir, "a.go")); link != "real" {
		t.Errorf("the symbolic link: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "real")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestFixRefused has two files that are to be fixed, of which the second has changed, and a directory that takes no file: no file is
// cut off, and those that are fixed are named.
func TestFixRefused(t *testing.T) {
	dir := module(t, map[string]string{"a.go": sliced, "b.go": strings.Replace(sliced, "First", "Second", 1)})
	began := time.Now()
	units, err := driver.Load(driver.Config{Dir: dir, Patterns: []string{"."}})
	if err != nil {
		t.Fatal(err)
	}
	findings, err := driver.Run(vet.Analyzer, units, driver.NewFacts(), nil)
	if err != nil || len(findings) != 2 {
		t.Fatal(findings, err)
	}
	changed := "// changed\n" + sliced
	if err := os.WriteFile(filepath.Join(dir, "b.go"), []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, err = applyFixes(findings, began, &out)
	if err == nil || !strings.Contains(err.Error(), "b.go: changed") || !strings.Contains(out.String(), "a.go:") || strings.Contains(out.String(), "b.go:") {
		t.Errorf("%v\n%s", err, &out)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "b.go")); string(b) != changed {
		t.Errorf("%v\n%s", err, b)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "*.go?*")); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
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

// Under go vet the findings are the same.
func TestUnderGoVet(t *testing.T) {
	dir := module(t, map[string]string{"a.go": leaky})
	tool := filepath.Join(t.TempDir(), "tarnvet")
	build := exec.Command("go", "build", "-o", tool, ".")
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

// newerGo makes the go command say that it is of a later version.
func newerGo(t *testing.T) {
	t.Helper()
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nif [ \"$1 $2\" = 'env GOVERSION' ]; then echo go1.99.1; else exec '" + real + "' \"$@\"; fi\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// What an older tarnvet cannot read is no error in the packages. Both versions are named, also under go vet.
func TestOlderThanGo(t *testing.T) {
	dir := module(t, map[string]string{"a.go": "package program\n\nvar x undefined\n"})
	newerGo(t)
	var out, complaints bytes.Buffer
	code := run([]string{"-C", dir, "."}, &out, &complaints)
	text := complaints.String()
	if code != 1 || !strings.Contains(text, runtime.Version()) || !strings.Contains(text, "go1.99.1") || strings.Contains(text, "undefined") {
		t.Errorf("exit %d\n%s", code, text)
	}
	if err := readable("-V=full"); err == nil || !strings.Contains(err.Error(), "go1.99.1") {
		t.Errorf("under go vet: %v", err)
	}
	if err := readable("-flags"); err != nil {
		t.Errorf("asked again: %v", err)
	}
}

// Modules without a common workspace are analysed in one run, started in the directory of one of them.
func TestSeveralModules(t *testing.T) {
	dir := module(t, map[string]string{"a.go": leaky})
	inner := filepath.Join(dir, "tools", "deep")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "tools", "go.mod"): strings.Replace(read(t, filepath.Join(dir, "go.mod")), "module program", "module tools", 1),
		filepath.Join(dir, "tools", "go.sum"): read(t, filepath.Join(dir, "go.sum")),
		filepath.Join(inner, "b.go"):          strings.Replace(leaky, "package program", "package deep", 1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		patterns []string
		want     []string
	}{
		{[]string{"./..."}, []string{"a.go"}},
		{[]string{"./tools/..."}, []string{"b.go"}},
		{[]string{"./...", "./tools/..."}, []string{"a.go", "b.go"}},
		{[]string{"./tools/deep", "."}, []string{"a.go", "b.go"}},
		{[]string{inner, dir + "/..."}, []string{"a.go", "b.go"}},
	} {
		var out, complaints bytes.Buffer
		if code := run(append([]string{"-C", dir}, tt.patterns...), &out, &complaints); code != 3 {
			t.Errorf("%v: exit %d\n%s%s", tt.patterns, code, &out, &complaints)
		}
		for _, name := range []string{"a.go", "b.go"} {
			want := 0
			if slices.Contains(tt.want, name) {
				want = 1
			}
			if n := strings.Count(out.String(), name+":6:"); n != want {
				t.Errorf("%v: %d findings in %s, want %d\n%s", tt.patterns, n, name, want, &out)
			}
		}
	}
}

// The programs are written as users write them, correct and wrong: a comment says what must be reported in its
// line, and nothing else may be.
func TestPrograms(t *testing.T) {
	t.Setenv("GOWORK", "")
	dir := filepath.Join("testdata", "programs")
	var out, complaints bytes.Buffer
	if code := run([]string{"-C", root, "./vet/cmd/tarnvet/testdata/programs"}, &out, &complaints); code != 3 {
		t.Fatalf("exit %d\n%s%s", code, &out, &complaints)
	}
	found := map[string]string{} // by file and line
	for line := range strings.Lines(out.String()) {
		at, text, _ := strings.Cut(line, ": ")
		file, rest, _ := strings.Cut(filepath.Base(at), ":")
		number, _, _ := strings.Cut(rest, ":")
		found[file+":"+number] += text
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		number := 0
		for line := range strings.Lines(read(t, file)) {
			number++
			at := fmt.Sprintf("%s:%d", filepath.Base(file), number)
			_, mark, marked := strings.Cut(line, "// want \"")
			if !marked {
				continue
			}
			want := strings.TrimSuffix(strings.TrimSpace(mark), "\"")
			if !strings.Contains(found[at], want) {
				t.Errorf("%s: %q is not found; found %q", at, want, found[at])
			}
			delete(found, at)
		}
	}
	for at, text := range found {
		t.Errorf("%s: not wanted: %s", at, text)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A leak planted in an example makes the ownership step of make test fail. The message names the line that
// took the reference, the line where it is lost, the fix, and the documentation.
func TestLeakPlantedInAnExample(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples"))); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.ReplaceAll(read(t, filepath.Join(dir, "go.mod")), "=> ..", "=> "+here)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
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
	sound := ownership(t, here, dir)
	if out, err := sound.CombinedOutput(); err != nil {
		t.Fatalf("before anything is planted: %v\n%s", err, out)
	}
	src := read(t, name)
	planted := src + `
func firstByte(pool *tarn.Pool, r io.Reader) (byte, error) {
	b := pool.Get(1)
	if _, err := io.ReadFull(r, b.Bytes()); err != nil {
		return 0, err
	}
	first := b.Bytes()[0]
	b.Free()
	return first, nil
}
`
	if err := os.WriteFile(name, []byte(planted), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := ownership(t, here, dir).CombinedOutput()
	line := strings.Count(src, "\n") + 3
	for _, want := range []string{
		fmt.Sprintf("forward.go:%d:15: leak: b from pool.Get is not freed on the path that returns at line %d", line, line+2),
		fmt.Sprintf("(where the condition at line %d is true)", line+1),
		"call b.Free() there, or defer it",
		"1 found; https://github.com/tarn-go/tarn/blob/main/docs/vet.md shows each kind with its cure",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if err == nil {
		t.Error("make ownership did not fail")
	}
}

// ownership is the command of that step, for the module in dir.
func ownership(t *testing.T, here, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("make", "--no-print-directory", "-C", here, "ownership", "BIN="+t.TempDir(), "OWNED=-C "+dir+" ./...")
	// Variables set by the make that runs this test must not reach the other one.
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"GOWORK", "GOFLAGS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}
