package house_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the repository's Markdown files by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/design/*.md", "docs/reference/*.md", "docs/evidence/*.md", "docs/notes/*.md", "examples/*.md", ".github/*.md", ".github/*/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found[filepath.ToSlash(path)] = string(text)
		}
	}
	if len(found) < 20 {
		t.Fatalf("%d pages found", len(found))
	}
	return found
}

var (
	fence   = regexp.MustCompile("(?ms)^[ \t]*```[a-z]*\n(.*?)^[ \t]*```")
	goFence = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are the fragments that links to a page can have, as GitHub makes them of its headings.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		title := link.ReplaceAllString(strings.ReplaceAll(m[1], "[", ""), "")
		slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		for n, base := 1, slug; found[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", base, n)
		}
		found[slug] = true
	}
	return found
}

// TestDocsLinks: a link of a page to a file of the repository, or to a heading, leads there.
func TestDocsLinks(t *testing.T) {
	all := pages(t)
	checked := 0
	for path, page := range all {
		page = code.ReplaceAllString(fence.ReplaceAllString(page, ""), "")
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			to := path
			if target != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(path), target))
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s links to %s, which does not exist", path, m[1])
					continue
				}
			}
			if other, ok := all[to]; fragment != "" && ok && !anchors(other)[fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", path, m[1], to)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links found", checked)
	}
}

// TestDocsCommands: make targets, scripts, programs and subcommands of tarn that pages name are there.
func TestDocsCommands(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile("(?:`|\n    )make ([a-z][a-z-]+)")
	script := regexp.MustCompile(`(?:^|[\s` + "`" + `])\.?/?((?:ci|bench)/[a-z]+\.sh)`)
	program := regexp.MustCompile(`go (?:run|test|build) \./((?:examples|debug|cmd)/[a-z0-9/]+)`)
	command := regexp.MustCompile(`go run \./cmd/tarn ([a-z]+)`)
	for path, page := range pages(t) {
		for _, m := range target.FindAllStringSubmatch(page, -1) {
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
				t.Errorf("%s names make %s, which Makefile does not have", path, m[1])
			}
		}
		for _, m := range script.FindAllStringSubmatch(page, -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s, which is not there", path, m[1])
			}
		}
		for _, m := range program.FindAllStringSubmatch(page, -1) {
			if files, err := filepath.Glob(m[1] + "/*.go"); err != nil || len(files) == 0 {
				t.Errorf("%s names the program %s, which is not there", path, m[1])
			}
		}
		for _, m := range command.FindAllStringSubmatch(page, -1) {
			if !slices.Contains([]string{"bench", "top", "tune", "doctor", "smb", "migrate", "version", "completion", "help"}, m[1]) {
				t.Errorf("%s names tarn %s", path, m[1])
			}
		}
	}
}

// docPackages are the packages that Go code in pages may use without an import, by name.
var docPackages = map[string]string{
	"tarn":     "github.com/tarn-go/tarn",
	"tarntest": "github.com/tarn-go/tarn/tarntest",
	"adapt":    "github.com/tarn-go/tarn/adapt",
	"wire":     "github.com/tarn-go/tarn/wire",
	"sizing":   "github.com/tarn-go/tarn/sizing",
	"debug":    "github.com/tarn-go/tarn/debug",
	"h2":       "github.com/tarn-go/tarn/h2",
	"h2http":   "github.com/tarn-go/tarn/h2http",
	"rpc":      "github.com/tarn-go/tarn/rpc",
	"smb":      "github.com/tarn-go/tarn/smb",
	"smb2":     "github.com/tarn-go/tarn/smb/gosmb2",
	"prom":     "github.com/tarn-go/tarn/debug/prom",
	"otel":     "github.com/tarn-go/tarn/debug/otel",
	"grpc":     "google.golang.org/grpc",
	"context":  "context",
	"errors":   "errors",
	"fmt":      "fmt",
	"http":     "net/http",
	"io":       "io",
	"log":      "log",
	"net":      "net",
	"os":       "os",
	"testing":  "testing",
	"time":     "time",
}

// docVars are the variables that the code in pages takes as given, with their types.
var docVars = map[string]string{
	"pool": "*tarn.Pool",
	"p":    "*tarn.Pool",
	"b":    "tarn.Buffer",
	"c":    "tarn.Chain",
	"conn": "net.Conn",
	"ctx":  "context.Context",
	"mux":  "*http.ServeMux",
	"resp": "*http.Response",
	"w":    "http.ResponseWriter",
}

// docPageVars are those of one page that are of another type.
var docPageVars = map[string]map[string]string{
	"docs/ownership.md":     {"w": "*wire.Writer", "r": "*wire.Reader"},
	"docs/vet.md":           {"w": "*wire.Writer", "q": "*wire.Writer"},
	"docs/reference/vet.md": {"w": "*wire.Writer", "q": "*wire.Writer"},
}

// TestDocsCode type-checks the Go code of all pages against the packages as they are. A page need not declare
// everything that it uses: an unknown function is taken to be the reader's. But functions called on Tarn's
// packages and types must exist and accept the arguments. The pages about the analyser show mistakes that
// compile; there each paragraph is a piece of its own.
func TestDocsCode(t *testing.T) {
	lookup := exportData(t)
	blocks := 0
	for path, page := range pages(t) {
		for _, m := range goFence.FindAllStringSubmatchIndex(page, -1) {
			block, line := page[m[2]:m[3]], 1+strings.Count(page[:m[2]], "\n")
			if strings.Contains(block, "->") {
				continue // before and after: no code
			}
			pieces := []string{block}
			if path == "docs/vet.md" || path == "docs/reference/vet.md" {
				pieces = strings.Split(block, "\n\n")
			}
			for _, piece := range pieces {
				blocks++
				for _, complaint := range checkDocCode(piece, docPageVars[path], lookup) {
					t.Errorf("%s:%d: %s", path, line, complaint)
				}
				line += strings.Count(piece, "\n") + 2
			}
		}
	}
	if blocks < 30 {
		t.Errorf("only %d pieces of code found", blocks)
	}
}

// exportData finds the compiler's export data of all packages that pages may use.
func exportData(t *testing.T) importer.Lookup {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, path := range docPackages {
		args = append(args, path)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaint.String())
	}
	files := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		path, file, _ := strings.Cut(line, "\t")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// checkDocCode says what is wrong with a piece of code of a page.
func checkDocCode(piece string, vars map[string]string, lookup importer.Lookup) []string {
	piece = strings.ReplaceAll(piece, "\t...\n", "\n")
	piece = strings.ReplaceAll(piece, "\n...\n", "\n")
	src := docFile(piece, vars)
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "piece.go", src, 0)
	if err != nil {
		return []string{err.Error()}
	}
	var complaints []string
	conf := types.Config{
		Importer: importer.ForCompiler(fset, "gc", lookup),
		Error: func(err error) {
			if text := err.(types.Error).Msg; !tolerated(text) {
				complaints = append(complaints, text)
			}
		},
	}
	conf.Check("piece", fset, []*ast.File{f}, nil)
	return complaints
}

// docFile makes a Go file of a piece of code: a file is one already, declarations get a package clause,
// statements a function, and both the imports and the variables that they use.
func docFile(piece string, vars map[string]string) string {
	if strings.HasPrefix(piece, "package ") {
		return piece
	}
	piece = regexp.MustCompile(`(?m)^import .*$`).ReplaceAllString(piece, "")
	text := piece
	if trimmed := strings.TrimSpace(piece); !strings.HasPrefix(trimmed, "func ") {
		text = "func _() error {\n" + value(piece) + "\nreturn nil\n}\n"
	} else if open := strings.Count(piece, "{") - strings.Count(piece, "}"); open > 0 {
		text += strings.Repeat("}\n", open)
	}
	given := maps.Clone(docVars)
	maps.Copy(given, vars)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		text += "var " + name + " " + given[name] + "\n"
	}
	file := "package piece\n\n"
	for name, path := range docPackages {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(text) {
			file += "import " + name + ` "` + path + "\"\n"
		}
	}
	return file + text
}

// value makes a statement of a piece that is a value alone.
func value(piece string) string {
	if x, err := parser.ParseExpr(piece); err == nil {
		if _, ok := x.(*ast.CompositeLit); ok {
			return "_ = " + strings.TrimSpace(piece)
		}
	}
	return piece
}

// tolerated are complaints about what a page leaves out: names of the reader's own program, values that are
// made and not used, and the end of a function.
func tolerated(complaint string) bool {
	if name, ok := strings.CutPrefix(complaint, "undefined: "); ok {
		return !strings.Contains(name, ".")
	}
	return strings.HasPrefix(complaint, "declared and not used") || strings.HasSuffix(complaint, "imported and not used") ||
		strings.HasPrefix(complaint, "missing return") || strings.HasPrefix(complaint, "too many return values") ||
		strings.HasPrefix(complaint, "not enough return values") || strings.HasSuffix(complaint, "not in for statement") ||
		strings.Contains(complaint, "as error value in return statement")
}

// TestFirstProgram: the first program of docs/getting-started.md is examples/first, which is compiled with its module.
func TestFirstProgram(t *testing.T) {
	page, err := os.ReadFile("docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("examples/first/main.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := goFence.FindSubmatch(page)
	if shown == nil || !strings.HasSuffix(string(program), "\n"+string(shown[1])) {
		t.Error("the first program of docs/getting-started.md is not examples/first")
	}
}

// TestReadme: what README has before its first heading is what a reader sees first, and all of it is about a screen and a half.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(page), "\n## ")
	at := 0
	for _, part := range []string{
		"Pooled memory for Go network programs that cannot corrupt another request's data", "(docs/images/slab.svg)",
		"| you have | you change | you get | the way back |", "Each figure is Tarn's divided by the other's",
		"(RELEASING.md#what-a-status-promises)", "go run ./cmd/tarn bench", "make test",
	} {
		i := strings.Index(first[at:], part)
		if i < 0 {
			t.Fatalf("before its first heading README has no %q, or not in its place", part)
		}
		at += i
	}
	if n := len(strings.Fields(first)); n > 320 {
		t.Errorf("%d words stand before README's first heading: 320 fit on a screen", n)
	}
	if n := len(strings.Fields(rest)); n > 250 {
		t.Errorf("%d words stand behind README's first heading: 250 fit on half a screen", n)
	}
	for _, name := range []string{"tarn", "wire", "tarntest", "adapt", "rpc", "h2http", "smb", "debug", "h2", "rpc/xds", "rpc/hyper", "sizing", "vet"} {
		if !strings.Contains(first[strings.Index(first, "(RELEASING"):], "`"+name+"`") {
			t.Errorf("README says no status of %s", name)
		}
	}
}

// TestGuides: a guide is short, and states facts rather than naming the tests behind them (docs/evidence has those).
func TestGuides(t *testing.T) {
	named := regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w*`)
	comment := regexp.MustCompile(`(?s)<!--.*?-->`) // which readers do not see: the command that generates a table
	for path, page := range pages(t) {
		if dir := filepath.Dir(path); path != "README.md" && dir != "docs" && dir != filepath.FromSlash("docs/reference") {
			continue
		}
		if name := named.FindString(comment.ReplaceAllString(fence.ReplaceAllString(page, ""), "")); name != "" {
			t.Errorf("%s names %s: a page of docs/evidence may", path, name)
		}
		if n := strings.Count(page, "\n"); n > 150 && filepath.Dir(path) == "docs" {
			t.Errorf("%s has %d lines: a guide has 150 at most", path, n)
		}
	}
}

// TestWords counts the words of guides and reference. A word has a letter or a digit; blocks of code and the targets of links are not
// counted. go test -v -run TestWords prints them.
func TestWords(t *testing.T) {
	const most = 25_000
	word := regexp.MustCompile(`[^\s|]*[\p{L}\p{N}][^\s|]*`)
	total := 0
	for path, page := range pages(t) {
		if dir := filepath.Dir(path); dir != "docs" && dir != filepath.FromSlash("docs/reference") {
			continue
		}
		n := len(word.FindAllString(link.ReplaceAllString(fence.ReplaceAllString(page, ""), "]"), -1))
		t.Logf("%6d %s", n, path)
		total += n
	}
	t.Logf("%6d in all", total)
	if total > most {
		t.Errorf("guides and reference have %d words, %d at most", total, most)
	}
}

// TestSiteHasEveryPage: the site's navigation names every page of docs.
func TestSiteHasEveryPage(t *testing.T) {
	nav, err := os.ReadFile("ci/site/mkdocs.yml")
	if err != nil {
		t.Fatal(err)
	}
	for path := range pages(t) {
		if page, ok := strings.CutPrefix(path, "docs/"); ok && !strings.Contains(string(nav), " "+page+"\n") {
			t.Errorf("ci/site/mkdocs.yml does not name %s", path)
		}
	}
}
