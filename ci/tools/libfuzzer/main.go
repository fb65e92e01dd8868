// Command libfuzzer builds the fuzz targets of packages as programs of libFuzzer, with their seeds as zip files, as ClusterFuzzLite wants
// them:
//
//	libfuzzer OUT DIRECTORY...
//
// It reads CXX, CXXFLAGS and LIB_FUZZING_ENGINE from the environment. Each program has package testing's own T and F, so targets of external
// test packages, and those that use the rest of their package's tests, are built too. The work tree's files stay: the compiler reads
// the tests under other names (go build -overlay). The builder that ClusterFuzzLite's images use for Go, go-118-fuzz-build, replaces both types,
// and built 7 of the 41 targets.
package main

import (
	"archive/zip"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed driver/driver.go
var driverText string

//go:embed main.txt
var mainText string

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: libfuzzer OUT DIRECTORY...")
		os.Exit(2)
	}
	out, err := filepath.Abs(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	failed := false
	for _, dir := range os.Args[2:] {
		p, err := load(dir)
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", dir, err)
			continue
		}
		for _, t := range p.targets() {
			name := strings.ReplaceAll(filepath.ToSlash(filepath.Clean(dir)), "/", "_") + "_" + t.name
			if err := p.build(t, filepath.Join(out, strings.TrimPrefix(name, "._"))); err != nil {
				failed = true
				fmt.Fprintf(os.Stderr, "%s %s: %v\n", dir, t.name, err)
				continue
			}
			fmt.Println(dir, t.name)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// pkg is a package, with its test files.
type pkg struct {
	Dir          string
	ImportPath   string
	TestGoFiles  []string
	XTestGoFiles []string
}

// target is a fuzz target of a package's own tests, or of its external ones.
type target struct {
	name     string
	external string // the external package's folder, which only the overlay has; "" for the package's own
}

func load(dir string) (*pkg, error) {
	p := &pkg{}
	text, err := command(dir, nil, "go", "list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles", ".")
	if err != nil {
		return nil, err
	}
	return p, json.Unmarshal(text, p)
}

// targets are the fuzz targets in the order of their files.
func (p *pkg) targets() []target {
	var found []target
	for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler says so
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") && len(fn.Type.Params.List) == 1 {
				t := target{name: fn.Name.Name}
				if slices.Contains(p.XTestGoFiles, file) {
					t.external = "libfuzzer_tests"
				}
				found = append(found, t)
			}
		}
	}
	return found
}

// build makes the program out, and out_seed_corpus.zip.
func (p *pkg) build(t target, out string) error {
	work, err := os.MkdirTemp("", "libfuzzer")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	folder := filepath.Join(p.Dir, "libfuzzer_main")
	if err := os.Mkdir(folder, 0o700); err != nil { // cgo runs in it; the overlay has its files
		return err
	}
	defer os.Remove(folder)
	path := p.ImportPath
	overlay := map[string]string{}
	for _, file := range p.TestGoFiles {
		overlay[filepath.Join(p.Dir, "libfuzzer_"+strings.TrimSuffix(file, "_test.go")+".go")] = filepath.Join(p.Dir, file)
	}
	if t.external != "" {
		path += "/" + t.external
		for _, file := range p.XTestGoFiles {
			overlay[filepath.Join(p.Dir, t.external, strings.TrimSuffix(file, "_test.go")+".go")] = filepath.Join(p.Dir, file)
		}
	}
	for name, text := range map[string]string{
		"driver.go": strings.Replace(driverText, "package driver", "package main", 1),
		"main.go":   strings.NewReplacer("@PACKAGE@", path, "@TARGET@", t.name).Replace(mainText),
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return err
		}
		overlay[filepath.Join(folder, name)] = filepath.Join(work, name)
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	list, archive := filepath.Join(work, "overlay.json"), filepath.Join(work, "target.a")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return err
	}
	if _, err := command(p.Dir, []string{"CGO_ENABLED=1"}, "go", "build", "-overlay", list, "-buildmode=c-archive", "-gcflags=all=-d=libfuzzer",
		"-tags=gofuzz,libfuzzer", "-o", archive, "./libfuzzer_main"); err != nil {
		return err
	}
	link := slices.Concat(strings.Fields(os.Getenv("CXXFLAGS")), strings.Fields(os.Getenv("LIB_FUZZING_ENGINE")), []string{archive, "-o", out})
	if _, err := command(p.Dir, nil, os.Getenv("CXX"), link...); err != nil {
		return err
	}
	return p.seeds(out, work)
}

// seeds asks the program for its seeds, in the package's folder, and packs them.
func (p *pkg) seeds(out, work string) error {
	dir := filepath.Join(work, "seeds")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if _, err := command(p.Dir, []string{"TARN_SEEDS=" + dir}, out); err != nil {
		return err
	}
	file, err := os.Create(out + "_seed_corpus.zip")
	if err != nil {
		return err
	}
	defer file.Close()
	w := zip.NewWriter(file)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Close()
}

// command returns the output of a program, or what it wrote to standard error as the error.
func command(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, strings.TrimSpace(stderr.String()))
	}
	return text, nil
}
