package house_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// importCosts are, for each published package of the root module and of smb, the modules besides Tarn's own whose packages an otherwise
// empty program builds when it imports it.
var importCosts = map[string][]string{
	".":              {},
	"tarntest":       {},
	"adapt":          {},
	"sizing":         {},
	"debug":          {},
	"debug/endpoint": {},
	"debug/vars":     {},
	"wire":           {"golang.org/x/sys"},
	"h2":             {"golang.org/x/net", "golang.org/x/sys"},
	"h2http":         {"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text"},
	"smb":            {"golang.org/x/crypto", "golang.org/x/sys"},
	"smb/gosmb2":     {"golang.org/x/crypto", "golang.org/x/sys"},
	"smb/sddl":       {},
}

// The root module requires two modules.
func TestRootRequires(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal([]byte(output(t, ".", "go", "mod", "edit", "-json")), &mod); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range mod.Require {
		if !r.Indirect {
			got = append(got, r.Path)
		}
	}
	if want := []string{"golang.org/x/net", "golang.org/x/sys"}; !slices.Equal(got, want) {
		t.Errorf("the root module requires %q", got)
	}
}

// TestSameVersions: what make test compiles in several modules it compiles once, because both require the same version.
func TestSameVersions(t *testing.T) {
	required := regexp.MustCompile(`(?m)^(?:require |\t)(\S+) (v\S+)`)
	versions := func(module string) map[string]string {
		text, err := os.ReadFile(filepath.Join(module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, m := range required.FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = m[2]
		}
		return all
	}
	for _, pair := range [][2]string{{"cmd/tarn", "interop"}, {"examples", "interop"}, {"vet", "cmd/tarn"}, {"examples/xds", "interop"}, {"interop/conformance", "interop"}} {
		one, other := versions(pair[0]), versions(pair[1])
		shared := 0
		for module, version := range one {
			if other[module] != "" {
				shared++
			}
			if other[module] != "" && other[module] != version {
				t.Errorf("%s requires %s %s, %s %s", pair[0], module, version, pair[1], other[module])
			}
		}
		if shared < 3 {
			t.Errorf("%s and %s require %d modules in common", pair[0], pair[1], shared)
		}
	}
}

// An empty program that imports a package lists modules of Tarn and below golang.org/x alone, which x/net's go.mod has, and builds packages
// of no others than those above.
func TestImportCosts(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{root, filepath.Join(root, "smb")} {
		for _, line := range outputLines(t, module, "go", "list", "-f", "{{.ImportPath}} {{.Name}}", "./...") {
			path, name, _ := strings.Cut(line, " ")
			if pkg := inTarn(path); importCosts[pkg] == nil && name != "main" && !strings.Contains("/"+pkg+"/", "/internal/") {
				t.Errorf("importCosts lacks the package %s", pkg)
			}
		}
	}
	for pkg, want := range importCosts {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			path := strings.TrimSuffix("github.com/tarn-go/tarn/"+pkg, "/.")
			ours := map[string]string{"github.com/tarn-go/tarn": root}
			if strings.HasPrefix(pkg+"/", "smb/") {
				ours["github.com/tarn-go/tarn/smb"] = filepath.Join(root, "smb")
			}
			dir := emptyProgram(t, path, ours)
			for _, module := range lines(t, dir, "go", "list", "-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all") {
				if ours[module] == "" && !strings.HasPrefix(module, "golang.org/x/") {
					t.Errorf("an import of %s puts %s into the module list", path, module)
				}
			}
			allowed := map[string]bool{"program": true}
			for module := range ours {
				allowed[module] = true
			}
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

// emptyProgram writes a module that imports path and nothing else, with modules replaced by folders.
func emptyProgram(t *testing.T, path string, replaced map[string]string) string {
	dir := t.TempDir()
	mod := "module program\n\ngo 1.26.0\n\n"
	for module, folder := range replaced {
		mod += "require " + module + " v0.0.0\nreplace " + module + " => " + folder + "\n"
	}
	var sum []byte
	for _, folder := range replaced {
		b, err := os.ReadFile(filepath.Join(folder, "go.sum"))
		if err != nil {
			t.Fatal(err)
		}
		sum = append(sum, b...)
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

// lines runs a command of the go tool in dir, outside any workspace, and returns the words it prints.
func lines(t *testing.T, dir, name string, args ...string) []string {
	t.Helper()
	return strings.Fields(output(t, dir, name, args...))
}

// outputLines is lines for a command whose lines have several words.
func outputLines(t *testing.T, dir, name string, args ...string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(output(t, dir, name, args...)), "\n")
}

// output runs a command of the go tool in dir, outside any workspace, and returns what it prints.
func output(t *testing.T, dir, name string, args ...string) string {
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
	return string(out)
}

// imports are the packages of Tarn that each package of every published module may import, besides internal
// packages of its own folder. A package that is not listed may import nothing of Tarn. Test files are not checked.
var imports = map[string][]string{
	".":                       {},
	"adapt":                   {"."},
	"cmd/tarn":                {},
	"cmd/tarn/internal/bench": {".", "adapt", "h2http", "internal/child", "internal/cputime", "internal/freeport", "internal/plot", "internal/rig", "internal/selfsigned", "rpc", "smb"},
	"cmd/tarn/internal/fetch": {"debug"},
	"cmd/tarn/internal/smb":   {"internal/umask", "smb", "smb/krb5"},
	"cmd/tarn/internal/top":   {".", "debug", "debug/endpoint", "internal/plot"},
	"cmd/tarn/internal/tune":  {".", "debug", "internal/plot", "sizing"},
	"debug":                   {".", "debug/endpoint", "internal/plot", "sizing"},
	"debug/endpoint":          {},
	"debug/internal/demo":     {".", "debug", "debug/endpoint"},
	"debug/internal/metrics":  {".", "debug/endpoint"},
	"debug/internal/scrape":   {".", "debug", "debug/endpoint"},
	"debug/internal/shoot":    {"internal/browser"},
	"debug/otel":              {".", "debug"},
	"debug/prom":              {".", "debug", "debug/endpoint"},
	"debug/vars":              {"."},
	"h2":                      {".", "wire"},
	"h2http":                  {".", "debug/endpoint", "h2", "internal/connstate", "internal/fields", "internal/greeting", "internal/latency", "internal/lifetime", "internal/monotonic", "internal/prefixed", "internal/preset", "internal/workers"},
	"internal/connstate":      {"debug/endpoint", "h2"},
	"internal/greeting":       {"internal/prefixed"},
	"internal/latency":        {"debug/endpoint"},
	"internal/plot":           {"sizing"},
	"internal/nginxtest":      {"internal/freeport", "internal/leftout"},
	"internal/rig":            {"internal/freeport"},
	"internal/rig/addc":       {"internal/freeport", "internal/leftout", "internal/rig/kdc"},
	"internal/rig/kdc":        {"internal/freeport", "internal/leftout"},
	"internal/testcert":       {"internal/selfsigned"},
	"internal/workers":        {"h2"},
	"rpc":                     {".", "debug/endpoint", "h2", "h2http", "internal/connstate", "internal/fields", "internal/greeting", "internal/latency", "internal/lifetime", "internal/monotonic", "internal/preset", "internal/workers"},
	"rpc/channelz":            {"rpc"},
	"rpc/opentelemetry":       {"rpc"},
	"rpc/internal/balance":    {"rpc/internal/backoff", "rpc/internal/entity", "rpc/internal/grpcgo", "rpc/internal/signal"},
	"rpc/internal/jsonpb":     {"."},
	"rpc/hyper":               {"rpc"},
	"rpc/internal/message":    {".", "rpc/internal/jsonpb", "rpc/internal/kept", "rpc/internal/viewpb", "wire"},
	"rpc/internal/viewpb":     {"internal/view"},
	"rpc/internal/web":        {"h2", "rpc/internal/header", "rpc/internal/message"},
	"rpc/xds":                 {"rpc", "rpc/internal/grpcgo"},
	"sizing":                  {"."},
	"smb":                     {".", "debug/endpoint"},
	"smb/afero":               {"smb"},
	"smb/gosmb2":              {"smb"},
	"smb/internal/conn":       {".", "wire"},
	"smb/internal/directtcp":  {"wire"},
	"smb/internal/logintest":  {"smb", "tarntest"},
	"smb/krb5":                {"smb"},
	"smb/krb5/gosmb2":         {"smb", "smb/gosmb2", "smb/krb5"},
	"smb/sddl":                {},
	"tarntest":                {"."},
	"vet":                     {"vet/internal/poolfile", "vet/internal/pools"},
	"vet/cmd/tarnvet":         {"vet"},
	"vet/golangci":            {"vet"},
	"vet/internal/known":      {"vet"},
	"vet/internal/mutate":     {"vet"},
	"wire":                    {"."},

	"cmd/tarn/internal/doctor": {"debug", "internal/plot"},
}

func TestImports(t *testing.T) {
	workspace, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	modules := []string{".", "rpc/hyper", "rpc/xds"} // which are published, and not in the workspace
	for _, m := range regexp.MustCompile(`(?m)^\t\./(\S+)`).FindAllStringSubmatch(string(workspace), -1) {
		if m[1] != "examples" {
			modules = append(modules, m[1])
		}
	}
	listed := map[string]bool{}
	for _, m := range modules {
		for _, line := range outputLines(t, m, "go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...") {
			words := strings.Fields(line)
			pkg := inTarn(words[0])
			allowed, ok := imports[pkg]
			listed[pkg] = true
			if !ok && !strings.Contains("/"+pkg+"/", "/internal/") {
				t.Errorf("imports lacks the package %s", pkg)
			}
			for _, imported := range words[1:] {
				if of := inTarn(imported); of != "" && !slices.Contains(allowed, of) && !ownInternal(pkg, of) {
					t.Errorf("%s imports %s", pkg, of)
				}
			}
		}
	}
	for pkg := range imports {
		if !listed[pkg] {
			t.Errorf("imports has %s, which does not exist", pkg)
		}
	}
}

// inTarn is an import path relative to the repository's root, "." for the root; "" for other modules.
func inTarn(path string) string {
	const module = "github.com/tarn-go/tarn"
	if path == module {
		return "."
	}
	rel, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		return ""
	}
	return rel
}

// ownInternal reports whether a package is an internal one of the folder of pkg. Those of the root's internal
// folder are the root package's own.
func ownInternal(pkg, imported string) bool {
	folder, _, ok := strings.Cut("/"+imported, "/internal/")
	if !ok {
		return false
	}
	if folder == "" {
		return pkg == "." || strings.HasPrefix(pkg, "internal/")
	}
	return strings.HasPrefix("/"+pkg+"/", folder+"/")
}
