package tarn_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// importCosts are, for each published package, the modules that a program gains besides Tarn's own
// when it imports it: what `go list -m all` prints of an otherwise empty program, without the
// modules that are only there for their own tests (those whose packages the program does not build).
var importCosts = map[string][]string{
	".":          {},
	"tarntest":   {},
	"adapt":      {},
	"sizing":     {},
	"debug":      {},
	"debug/vars": {},
	"wire":       {"golang.org/x/sys"},
	"h2":         {"golang.org/x/net", "golang.org/x/sys"},
	"smb":        {"golang.org/x/crypto", "golang.org/x/sys"},
}

// An empty program that imports a package of the root module lists the modules that the root's go.mod
// names, at most golang.org/x, and builds packages of no others than those above.
func TestImportCosts(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for pkg, want := range importCosts {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			path := strings.TrimSuffix("github.com/tarn-go/tarn/"+pkg, "/.")
			dir := emptyProgram(t, path, map[string]string{"github.com/tarn-go/tarn": root})
			for _, module := range lines(t, dir, "go", "list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all") {
				if module != "github.com/tarn-go/tarn" && !strings.HasPrefix(module, "golang.org/x/") {
					t.Errorf("an import of %s puts %s into the module list", path, module)
				}
			}
			allowed := map[string]bool{"github.com/tarn-go/tarn": true, "program": true}
			for _, m := range want {
				allowed[m] = true
			}
			for _, module := range lines(t, dir, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".") {
				if !allowed[module] {
					t.Errorf("an import of %s builds packages of %s", path, module)
				}
			}
		})
	}
}

// moduleCosts are, for each module beside the root, the modules besides Tarn's own whose packages are built into
// a program that imports all of its packages.
var moduleCosts = map[string]string{
	"rpc": "golang.org/x/net golang.org/x/sys golang.org/x/text google.golang.org/genproto/googleapis/rpc google.golang.org/grpc google.golang.org/protobuf",
	"smb/krb5": "github.com/cloudsoda/sddl github.com/hashicorp/go-uuid github.com/jcmturner/aescts/v2 github.com/jcmturner/dnsutils/v2 " +
		"github.com/jcmturner/gofork github.com/jcmturner/gokrb5/v8 github.com/jcmturner/rpc/v2 golang.org/x/crypto golang.org/x/net golang.org/x/sys",
	"smb/afero":  "github.com/spf13/afero golang.org/x/crypto golang.org/x/sys golang.org/x/text",
	"smb/webdav": "golang.org/x/crypto golang.org/x/net golang.org/x/sys",
	"debug/prom": "github.com/beorn7/perks github.com/cespare/xxhash/v2 github.com/munnerz/goautoneg github.com/prometheus/client_golang " +
		"github.com/prometheus/client_model github.com/prometheus/common github.com/prometheus/procfs golang.org/x/sys google.golang.org/protobuf",
	"rpc/opentelemetry": "github.com/cespare/xxhash/v2 go.opentelemetry.io/otel go.opentelemetry.io/otel/metric go.opentelemetry.io/otel/trace golang.org/x/net " +
		"golang.org/x/sys golang.org/x/text google.golang.org/genproto/googleapis/rpc google.golang.org/grpc google.golang.org/protobuf",
	"debug/otel": "go.opentelemetry.io/otel go.opentelemetry.io/otel/metric",
	"vet":        "github.com/golangci/plugin-module-register golang.org/x/mod golang.org/x/sync golang.org/x/tools",
	"cmd/tarn": "github.com/hashicorp/go-uuid github.com/jcmturner/aescts/v2 github.com/jcmturner/dnsutils/v2 github.com/jcmturner/gofork " +
		"github.com/jcmturner/gokrb5/v8 github.com/jcmturner/rpc/v2 golang.org/x/crypto golang.org/x/mod golang.org/x/net golang.org/x/sync " +
		"golang.org/x/sys golang.org/x/term golang.org/x/text golang.org/x/tools google.golang.org/genproto/googleapis/rpc google.golang.org/grpc " +
		"google.golang.org/protobuf",
}

func TestModuleCosts(t *testing.T) {
	for dir, want := range moduleCosts {
		t.Run(dir, func(t *testing.T) {
			built := lines(t, dir, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
			built = slices.DeleteFunc(built, func(m string) bool {
				return m == "github.com/tarn-go/tarn" || strings.HasPrefix(m, "github.com/tarn-go/tarn/")
			})
			slices.Sort(built)
			if got := strings.Join(slices.Compact(built), " "); got != want {
				t.Errorf("it builds packages of\n%s\nwant\n%s", got, want)
			}
		})
	}
	workspace, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\./(\S+)`).FindAllStringSubmatch(string(workspace), -1) {
		if _, ok := moduleCosts[m[1]]; !ok && m[1] != "examples" {
			t.Errorf("moduleCosts lacks %s", m[1])
		}
	}
}

// emptyProgram writes a module that imports path and nothing else, with modules replaced by folders.
func emptyProgram(t *testing.T, path string, replaced map[string]string) string {
	dir := t.TempDir()
	mod := "module program\n\ngo 1.25.0\n\n"
	for module, folder := range replaced {
		mod += "require " + module + " v0.0.0\nreplace " + module + " => " + folder + "\n"
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod":  mod,
		"go.sum":  string(sum),
		"main.go": "package main\n\nimport _ \"" + path + "\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines(t, dir, "go", "mod", "tidy")
	return dir
}

// lines runs a command of the go tool in dir, outside any workspace, and returns the lines it prints.
func lines(t *testing.T, dir, name string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, complaint.String())
	}
	return strings.Fields(string(out))
}

// imports are the packages of Tarn that each published package of the root module may import besides
// internal ones of its own folder; docs/design/house.md draws them. What is not listed imports nothing of
// Tarn. Tests are not looked at.
var imports = map[string][]string{
	"adapt":             {"."},
	"debug":             {".", "debug/endpoint", "sizing", "internal/plot"},
	"debug/vars":        {"."},
	"h2":                {".", "debug/endpoint", "wire"},
	"h2http":            {".", "debug/endpoint", "h2", "internal/lifetime", "internal/workers"},
	"sizing":            {"."},
	"smb":               {"."},
	"smb/internal/conn": {".", "wire"},
	"smb/gosmb2":        {"smb"},
	"tarntest":          {"."},
	"wire":              {"."},
}

func TestImports(t *testing.T) {
	const module = "github.com/tarn-go/tarn"
	for pkg, allowed := range imports {
		path := module + "/" + pkg
		for _, imported := range strings.Split(strings.Join(lines(t, ".", "go", "list", "-f", `{{join .Imports "\n"}}`, path), "\n"), "\n") {
			rest, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			if rest = strings.TrimPrefix(rest, "/"); rest == "" {
				rest = "."
			}
			folder, _, _ := strings.Cut(pkg, "/")
			if !slices.Contains(allowed, rest) && !strings.HasPrefix(rest, pkg+"/internal/") && !strings.HasPrefix(rest, folder+"/internal/") {
				t.Errorf("%s imports %s", pkg, rest)
			}
		}
	}
}
