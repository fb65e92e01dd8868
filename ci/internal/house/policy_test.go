package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// This file tests the rules of the repository; see CONTRIBUTING.md.

// The root package may depend on nothing but the standard library and this module.
func TestRootImportsTheStandardLibraryAlone(t *testing.T) {
	for pkg, allowed := range map[string]string{
		".":          "github.com/tarn-go/tarn",
		"./adapt":    "github.com/tarn-go/tarn",
		"./tarntest": "github.com/tarn-go/tarn",
		"./sizing":   "github.com/tarn-go/tarn",
		"./debug":    "github.com/tarn-go/tarn",
	} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, dep := range strings.Fields(string(out)) {
			if !strings.HasPrefix(dep, allowed) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
	}
}

// sources walks the Go files of the workspace's modules. A module with a go.work of its own is not
// published: peers, suites and benchmarks. Of rpc/hyper and rpc/xds, which are, see their go.work.
func sources(t *testing.T, visit func(path string, src []byte)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.work")); err == nil && path != "." && path != "rpc/hyper" && path != "rpc/xds" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err == nil {
			visit(filepath.ToSlash(path), src)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A file holds one concept. That cannot be counted; a file of this length probably holds two.
func TestFilesHoldOneConcept(t *testing.T) {
	const many = 700
	sources(t, func(path string, src []byte) {
		if n := strings.Count(string(src), "\n"); n > many {
			t.Errorf("%s has %d lines; split it by concept", path, n)
		}
	})
}

var forbidden = []struct {
	what  string
	where *regexp.Regexp // paths the rule is for
	words *regexp.Regexp
}{
	{"unsafe outside internal", regexp.MustCompile(`^(?:[^i]|i[^n]).*\.go$`), regexp.MustCompile(`(?m)^\s*(?:import )?"unsafe"$`)},
	{"linkname", regexp.MustCompile(`.`), regexp.MustCompile(`(?m)^//go:linkname `)},
	{"a sleeping test", regexp.MustCompile(`_test\.go$`), regexp.MustCompile(`\btime\.Sleep\(`)},
	{"an init function", regexp.MustCompile(`.`), regexp.MustCompile(`(?m)^func init\(`)},
	{"something left open", regexp.MustCompile(`.`), regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME)\b`)},
}

func TestForbiddenThings(t *testing.T) {
	sources(t, func(path string, src []byte) {
		for _, rule := range forbidden {
			if path != "ci/internal/house/policy_test.go" && rule.where.MatchString(path) && rule.words.Match(src) {
				t.Errorf("%s: %s", path, rule.what)
			}
		}
	})
}

// Every exported name has a doc comment, every package one of its own, and no function outside
// tests takes a bare bool: the call would not show what true means.
func TestNamesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	sources(t, func(path string, src []byte) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		documented[dir] = documented[dir] || f.Doc != nil
		for _, d := range f.Decls {
			checkDecl(t, path, d)
		}
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment", dir)
		}
	}
}

// grpcNames are options that carry grpc-go's names and so its types.
var grpcNames = map[string]bool{"WaitForHandlers": true, "SharedWriteBuffer": true, "WithSharedWriteBuffer": true}

func checkDecl(t *testing.T, path string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !strings.Contains(path, "internal/") {
			t.Errorf("%s: %s has no doc comment", path, d.Name.Name)
		}
		for _, p := range d.Type.Params.List {
			if id, ok := p.Type.(*ast.Ident); ok && id.Name == "bool" && !grpcNames[d.Name.Name] && len(p.Names) > 0 && p.Names[0].Name != "_" {
				t.Errorf("%s: %s takes a bool, %s", path, d.Name.Name, p.Names[0].Name)
			}
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
				t.Errorf("%s: type %s has no doc comment", path, ts.Name.Name)
			}
		}
	}
}

// exportedReceiver reports whether a function is one that users see.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if index, ok := x.(*ast.IndexExpr); ok {
		x = index.X
	}
	id, ok := x.(*ast.Ident)
	return ok && id.IsExported()
}
