package h2http

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
)

// suites are the tests of libraries on net/http, which run with h2http in place of net/http's HTTP/2.
var suites = []struct {
	module   string
	packages []string
	swap     func(t *testing.T, dir string) // changes a copy of the module
	passes   int                            // tests, at least
}{
	{"connectrpc.com/connect", []string{"."}, swapConnect, 100},
	{"github.com/go-chi/chi/v5", []string{".", "./middleware"}, swapChi, 100},
}

// TestSuites runs them with TARN_LONG=1: to build them takes a minute on a busy machine.
func TestSuites(t *testing.T) {
	if os.Getenv("TARN_LONG") == "" {
		leftout.Note(t, "runs with TARN_LONG=1 only")
		t.Skip()
	}
	for _, s := range suites {
		t.Run(s.module, func(t *testing.T) {
			dir := t.TempDir()
			module := filepath.Join(dir, "module")
			original := strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Dir}}", s.module))
			if err := os.CopyFS(module, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			s.swap(t, module)
			modfile := filepath.Join(dir, "go.mod")
			tarn, err := filepath.Abs(filepath.Join("..", ".."))
			if err != nil {
				t.Fatal(err)
			}
			join(t, modfile, "../go.mod")
			join(t, filepath.Join(dir, "go.sum"), "../go.sum", filepath.Join(original, "go.sum"))
			run(t, "go", "mod", "edit", "-replace=github.com/tarn-go/tarn="+tarn, "-replace="+s.module+"="+module, modfile)
			args := []string{"test", "-vet=off", "-v", "-mod=mod", "-modfile=" + modfile, "-timeout=4m"}
			for _, p := range s.packages {
				args = append(args, strings.TrimSuffix(s.module+strings.TrimPrefix(p, "."), "/"))
			}
			cmd := exec.Command("go", args...)
			cmd.Env = append(os.Environ(), "GOWORK=off")
			out, err := cmd.CombinedOutput()
			passed := len(regexp.MustCompile(`(?m)^ *--- PASS`).FindAll(out, -1))
			t.Logf("%d tests passed, %d skipped", passed, len(regexp.MustCompile(`(?m)^ *--- SKIP`).FindAll(out, -1)))
			if err != nil || passed < s.passes {
				t.Errorf("%v\n%s", err, failures(out))
			}
			for _, side := range []string{"server", "client"} {
				if n := strings.Count(string(out), "h2http's "+side+" is used"); n != len(s.packages) {
					t.Errorf("h2http's %s was used in %d packages of %d", side, n, len(s.packages))
				}
			}
		})
	}
}

// join writes what is in files to one file; those that do not exist count as empty.
func join(t *testing.T, to string, files ...string) {
	t.Helper()
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if err := os.WriteFile(to, all, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace changes a file: each of old must be in it.
func replace(t *testing.T, file string, oldNew ...string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(string(b), oldNew[i]) {
			t.Fatalf("%s does not contain %q", file, oldNew[i])
		}
	}
	if err := os.WriteFile(file, []byte(strings.NewReplacer(oldNew...).Replace(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// addSwap adds a file of testdata/suites to the package in dir.
func addSwap(t *testing.T, dir, source, pkg, file string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "suites", source))
	if err != nil {
		t.Fatal(err)
	}
	src := strings.Replace(string(b), "package swap", "package "+pkg, 1)
	if err := os.WriteFile(filepath.Join(dir, file), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
}

// swapConnect changes the server in memory, and its client, that all of connect-go's tests use.
func swapConnect(t *testing.T, dir string) {
	memhttp := filepath.Join(dir, "internal", "memhttp")
	replace(t, filepath.Join(memhttp, "memhttp.go"),
		"\tserver.serverWG.Go(", "\tswapServer(&server.server)\n\tserver.serverWG.Go(",
		"\ttransport.DisableKeepAlives = false\n", "\ttransport.DisableKeepAlives = false\n\tswapTransport(transport)\n")
	addSwap(t, memhttp, "swap.go", "memhttp", "swap.go")
}

// swapChi changes the servers of chi's tests, and the default client, with which they are called.
func swapChi(t *testing.T, dir string) {
	for _, pkg := range []string{"", "middleware"} {
		files, err := filepath.Glob(filepath.Join(dir, pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			src := strings.NewReplacer("httptest.NewServer(", "startSwapped(", "httptest.NewUnstartedServer(", "newSwapped(", "ts.Start()", "startNow(ts)").Replace(string(b))
			if src == string(b) {
				continue
			}
			if !strings.Contains(src, "httptest.") {
				src = strings.Replace(src, "\t\"net/http/httptest\"\n", "", 1)
			}
			if err := os.WriteFile(f, []byte(src), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		name := "chi"
		if pkg != "" {
			name = pkg
		}
		addSwap(t, filepath.Join(dir, pkg), "swap.go", name, "swap_test.go")
		addSwap(t, filepath.Join(dir, pkg), "chi.go", name, "swapped_test.go")
	}
}
