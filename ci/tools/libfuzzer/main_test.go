package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// program writes a module with two targets: one of its own tests, which needs another test file, and one of its external tests, which needs
// what an export_test.go exports. Each fails for one input.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	for name, text := range map[string]string{
		"go.mod":                              "module program\n\ngo 1.26.0\n",
		"a.go":                                "package program\n\nfunc bad(b []byte) bool { return len(b) > 1 && b[0] == 'X' && b[1] == 'Y' }\n",
		"export_test.go":                      "package program\n\nvar Bad = bad\n",
		"help_test.go":                        "package program\n\nimport \"testing\"\n\nfunc check(t testing.TB, b []byte) {\n\tt.Helper()\n\tif bad(b) {\n\t\tt.Fatal(\"it is bad\")\n\t}\n}\n",
		"own_test.go":                         "package program\n\nimport \"testing\"\n\nfunc FuzzOwn(f *testing.F) {\n\tf.Add([]byte(\"added\"))\n\tf.Fuzz(func(t *testing.T, b []byte) { check(t, b) })\n}\n\nfunc FuzzyNot() {}\n",
		"external_test.go":                    "package program_test\n\nimport (\n\t\"program\"\n\t\"testing\"\n)\n\nfunc FuzzExternal(f *testing.F) {\n\tf.Fuzz(func(t *testing.T, n uint8, s string) {\n\t\tif program.Bad([]byte(s)) {\n\t\t\tpanic(s)\n\t\t}\n\t})\n}\n",
		"testdata/fuzz/FuzzExternal/1f2e3d4c": "go test fuzz v1\nbyte('\\x07')\nstring(\"kept\")\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTargets(t *testing.T) {
	p, err := load(program(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := []target{{name: "FuzzOwn"}, {name: "FuzzExternal", external: "libfuzzer_tests"}}; !reflect.DeepEqual(p.targets(), want) {
		t.Errorf("%v, want %v", p.targets(), want)
	}
}

// leaveOut skips a test, and has make list it when all has run, as internal/leftout does, which this module does not require. Continuous
// integration does not install clang.
func leaveOut(t *testing.T, why string) {
	t.Helper()
	if name := os.Getenv("TARN_LEFT_OUT"); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(t.Name() + ": " + why + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	t.Skip("left out: " + why)
}

// The programs have the seeds, and libFuzzer finds the inputs that fail.
func TestBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the standard library once more")
	}
	var cxx string
	for _, name := range []string{"clang++", "clang++-14", "clang++-16", "clang++-19"} {
		if path, err := exec.LookPath(name); err == nil && cxx == "" {
			cxx = path
		}
	}
	if cxx == "" {
		leaveOut(t, "there is no clang++, which has libFuzzer (Debian: clang)")
	}
	t.Setenv("CXX", cxx)
	t.Setenv("CXXFLAGS", "-fsanitize=address")
	t.Setenv("LIB_FUZZING_ENGINE", "-fsanitize=fuzzer")
	dir, out := program(t), t.TempDir()
	p, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	seeds := map[string]string{"FuzzOwn": "added", "FuzzExternal": "\x07kept"}
	for _, target := range p.targets() {
		name := filepath.Join(out, target.name)
		if err := p.build(target, name); err != nil {
			t.Fatal(err)
		}
		r, err := zip.OpenReader(name + "_seed_corpus.zip")
		if err != nil {
			t.Fatal(err)
		}
		if len(r.File) != 1 || r.File[0].UncompressedSize64 != uint64(len(seeds[target.name])) {
			t.Errorf("%s: seeds %v", target.name, r.File)
		}
		r.Close()
		cmd := exec.Command(name, "-seed=1", "-runs=2000000")
		cmd.Dir = out
		text, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(text), "Test unit written to ./crash-") {
			t.Errorf("%s found no input: %v\n%s", target.name, err, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "libfuzzer_main")); !os.IsNotExist(err) {
		t.Errorf("a folder is left: %v", err)
	}
}
