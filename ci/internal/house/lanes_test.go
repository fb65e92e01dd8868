package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// withoutRaces are the identifiers in tests that the race detector leaves out, shortens, or would falsify.
var withoutRaces = regexp.MustCompile(`^(raceEnabled|withoutDetector|AllocsPerRun)$`)

// TestEveryTestHasALane: of the packages in RACED, make units runs the tests that UNDETECTED matches. These are all that make race
// does not run as they are.
func TestEveryTestHasALane(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `\s*:= (.*)$`).FindSubmatch(makefile)
		if m == nil {
			t.Fatalf("Makefile has no %s", name)
		}
		return strings.ReplaceAll(string(m[1]), "$$", "$")
	}
	undetected, err := regexp.Compile(variable("UNDETECTED"))
	if err != nil {
		t.Fatal(err)
	}
	_, packages, _ := strings.Cut(strings.TrimSuffix(variable("RACED"), ")"), ",")
	matched := 0
	for _, dir := range strings.Fields(packages[strings.Index(packages, ",")+1:]) {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", dir, err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !strings.HasPrefix(fn.Name.Name, "Test") {
					continue
				}
				named := ""
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok && withoutRaces.MatchString(id.Name) {
						named = id.Name
					}
					return true
				})
				matches := undetected.MatchString(fn.Name.Name)
				if matches {
					matched++
				}
				if named != "" && !matches {
					t.Errorf("%s: %s uses %s, and UNDETECTED in Makefile does not match its name", file, fn.Name.Name, named)
				}
			}
		}
	}
	if matched == 0 {
		t.Error("UNDETECTED matches no test")
	}
}
