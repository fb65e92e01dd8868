package h2http

import (
	"encoding/json"
	"fmt"
	"go/version"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
)

// everywhere are the tests of projects that make servers and clients in many places. They run on a net/http whose servers and
// transports are passed to ConfigureServer and ConfigureTransport at their first use.
var everywhere = []struct {
	module   string
	version  string // "": of go.mod
	packages []string
	without  map[string]string // tests that are left out, and why
	passes   int               // tests in each package, at least
}{
	{module: "github.com/klauspost/compress", packages: []string{"gzhttp"}, passes: 200},
	{module: "github.com/labstack/echo/v4", version: "v4.16.0", packages: []string{"", "middleware"}, passes: 300},
	{module: "github.com/gin-gonic/gin", version: "v1.12.0", packages: []string{""}, passes: 300, without: map[string]string{
		"TestPusher":                   "pushes: fails with net/http's clients, which refuse it",
		"TestSaveUploadedCreateFailed": "changes the mode of the root directory, where it is permitted to",
	}},
	{module: "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", version: "v0.72.0", packages: []string{""}, passes: 100},
	{module: "github.com/hashicorp/go-retryablehttp", version: "v0.7.8", packages: []string{""}, passes: 50},
	{module: "github.com/go-resty/resty/v2", version: "v2.17.2", packages: []string{""}, passes: 200, without: map[string]string{
		"TestGet":                                    "requires HTTP/1.1",
		"TestGetClientParamRequestParam":             "requires HTTP/1.1",
		"TestGetCustomUserAgent":                     "requires HTTP/1.1",
		"TestClientRetryWait":                        "requires that a sleep is at most 10 ms too long",
		"TestClientRetryWaitCallbackSwitchToDefault": "requires that a sleep is at most 5 ms too long",
	}},
	{module: "github.com/alexedwards/scs/v2", version: "v2.8.0", packages: []string{""}, passes: 40},
	{module: "github.com/felixge/httpsnoop", version: "v1.0.4", packages: []string{""}, passes: 5, without: map[string]string{
		"TestCaptureMetrics": "requires HTTP/1.1's error of a handler that panics",
	}},
	{module: "github.com/tmaxmax/go-sse", version: "v0.12.0", packages: []string{""}, passes: 50},
	{module: "github.com/google/go-containerregistry", version: "v0.22.1", packages: []string{"pkg/v1/remote", "pkg/v1/remote/transport", "pkg/registry"}, passes: 50, without: map[string]string{
		"TestWriteLayer_Progress_Error": "requires how much HTTP/1.1 sends to a server that fails: fails with net/http's HTTP/2, too",
		"TestWriteLayer_Progress_Retry": "requires how much HTTP/1.1 sends to a server that fails: fails with net/http's HTTP/2, too",
	}},
}

// TestSuitesEverywhere runs the first of them; with TARN_LONG=1 all, for which modules are downloaded.
func TestSuitesEverywhere(t *testing.T) {
	if v := version.Lang(runtime.Version()); v != netHTTPVersion {
		leftout.Skip(t, fmt.Sprintf("net/http is changed as %s's, and this is %s", netHTTPVersion, v))
	}
	for i, s := range everywhere {
		if i > 0 && os.Getenv("TARN_LONG") == "" {
			leftout.Note(t, fmt.Sprintf("%d others run with TARN_LONG=1 only", len(everywhere)-1))
			return
		}
		t.Run(s.module, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(s.without)) {
				leftout.Note(t, name+": "+s.without[name])
			}
			tmp := t.TempDir()
			dir := filepath.Join(tmp, "module")
			original := moduleDir(t, s.module, s.version)
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			tarn, err := filepath.Abs(filepath.Join("..", ".."))
			if err != nil {
				t.Fatal(err)
			}
			// What its go.sum does not list, such as Tarn's dependencies, would be looked up at sum.golang.org.
			join(t, filepath.Join(dir, "go.sum"), "../go.sum", filepath.Join(tarn, "go.sum"), filepath.Join(original, "go.sum"))
			inModule := func(args ...string) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "GOWORK=off")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
			inModule("mod", "edit", "-require=github.com/tarn-go/tarn@v0.0.0", "-replace=github.com/tarn-go/tarn="+tarn)
			overlay := overlayNetHTTP(t, tmp)
			for _, p := range s.packages {
				t.Run("package "+p, func(t *testing.T) {
					in := filepath.Join(dir, p)
					addSwap(t, in, "everywhere.go", packageName(t, in)+"_test", "zz_swap_test.go")
					bin := filepath.Join(tmp, "suite.test")
					inModule("test", "-vet=off", "-mod=mod", "-overlay", overlay, "-c", "-o", bin, "./"+p)
					tests := func(args ...string) ([]byte, error) {
						cmd := exec.CommandContext(t.Context(), bin, append([]string{"-test.v", "-test.timeout=5m"}, args...)...)
						cmd.Dir = in
						return cmd.CombinedOutput()
					}
					without := "^(" + strings.Join(slices.Sorted(maps.Keys(s.without)), "|") + ")$"
					out, err := tests("-test.skip", without)
					passed := len(regexp.MustCompile(`(?m)^ *--- PASS`).FindAll(out, -1))
					t.Logf("%d tests passed, %d skipped", passed, len(regexp.MustCompile(`(?m)^ *--- SKIP`).FindAll(out, -1)))
					for _, side := range []string{"server", "client"} {
						if !strings.Contains(string(out), "h2http's "+side+" is used") {
							t.Errorf("h2http's %s is not used", side)
						}
					}
					runAgain(t, out, err, func(names ...string) ([]byte, error) {
						return tests("-test.run", "^("+strings.Join(names, "|")+")$")
					})
					if passed < s.passes {
						t.Errorf("only %d tests have passed", passed)
					}
				})
			}
		})
	}
}

// moduleDir is where a module's source is. One that this module does not require is downloaded.
func moduleDir(t *testing.T, module, version string) string {
	t.Helper()
	if version == "" {
		return strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Dir}}", module))
	}
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	var got struct{ Dir, Error string }
	if jerr := json.Unmarshal(out, &got); jerr != nil || err != nil {
		leftout.Skip(t, fmt.Sprintf("%s %s cannot be downloaded: %v %s", module, version, err, got.Error))
	}
	return got.Dir
}

// packageName is the name of the package in a directory.
func packageName(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(?m)^package (\w+?)(_test)?$`).FindSubmatch(b); m != nil {
			return string(m[1])
		}
	}
	t.Fatalf("%s has no tests", dir)
	return ""
}

// overlayNetHTTP writes an overlay to dir in which net/http calls SwapServer and SwapTransport, and returns its path.
func overlayNetHTTP(t *testing.T, dir string) string {
	t.Helper()
	src := filepath.Join(strings.TrimSpace(run(t, "go", "env", "GOROOT")), "src", "net", "http")
	overlay := map[string]string{}
	for _, f := range []struct {
		file    string
		changes []string // old and new, in turns
	}{
		{"server.go", []string{
			"func (s *Server) Serve(l net.Listener) error {\n", "// SwapServer is called before a server serves.\nvar SwapServer func(*Server)\n\n" +
				"func (s *Server) Serve(l net.Listener) error {\n\tif SwapServer != nil {\n\t\tSwapServer(s)\n\t}\n",
			"func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {\n",
			"func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {\n\tif SwapServer != nil {\n\t\tSwapServer(s)\n\t}\n",
		}},
		{"transport.go", []string{
			"func (t *Transport) roundTrip(req *Request) (_ *Response, err error) {\n", "// SwapTransport is called before each request.\nvar SwapTransport func(*Transport)\n\n" +
				"func (t *Transport) roundTrip(req *Request) (_ *Response, err error) {\n\tif SwapTransport != nil {\n\t\tSwapTransport(t)\n\t}\n",
		}},
		{filepath.Join("httptest", "server.go"), []string{
			"func (s *Server) StartTLS() {\n", "func (s *Server) StartTLS() {\n\tif http.SwapServer != nil {\n\t\ts.EnableHTTP2 = true\n\t}\n",
		}},
	} {
		b, err := os.ReadFile(filepath.Join(src, f.file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.ReplaceAll(f.file, string(filepath.Separator), "_"))
		if err := os.WriteFile(to, b, 0o600); err != nil {
			t.Fatal(err)
		}
		replace(t, to, f.changes...)
		overlay[filepath.Join(src, f.file)] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
