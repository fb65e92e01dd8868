package h2http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/version"
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

// netHTTPVersion is the Go release whose net/http tests are adapted here. Others have other
// tests, and tests that are to be adapted otherwise.
const netHTTPVersion = "go1.26"

// leaveOut is a test of net/http's that fails with h2http, and why. Where it passes, TestNetHTTP fails.
type leaveOut struct {
	test   string
	with   string // the swap with which it fails
	says   string // what its output contains then
	reason string
}

var netHTTPLeaveOuts = []leaveOut{
	{"TestServerKeepAlivesEnabled", "server", "test server still has active conns after", // for ever
		"SetKeepAlivesEnabled does not reach HTTP/2 connections: net/http has no function that returns the setting"},
	{"TestClientTimeoutCancel", "client", "--- FAIL: TestClientTimeoutCancel/h2",
		"compares the error with a variable that net/http does not export; the text is the same"},
	{"TestCancelRequestMidBody", "client", "--- FAIL: TestCancelRequestMidBody/h2",
		"compares the error with a variable that net/http does not export; the text is the same"},
	{"TestDontCacheBrokenHTTP2Conn", "client", "--- FAIL: TestDontCacheBrokenHTTP2Conn/h2",
		"wants GotConn to be called once the client's first frames are written"},
}

// TestNetHTTP runs net/http's own tests of clients and servers over HTTP/2 with h2http's server, its client, and
// both in place of net/http's. With TARN_LONG=1 all, and what is left out; otherwise with both, and
// without the tests that aboutTime matches.
func TestNetHTTP(t *testing.T) {
	if v := version.Lang(runtime.Version()); v != netHTTPVersion {
		leftout.Skip(t, fmt.Sprintf("the tests are adapted from %s's net/http, and this is %s", netHTTPVersion, v))
	}
	s := newNetHTTPSuite(t)
	long := os.Getenv("TARN_LONG") != ""
	for _, swap := range []string{"server", "client", "both"} {
		if !long && swap != "both" {
			continue
		}
		t.Run(swap, func(t *testing.T) {
			left := map[string]bool{}
			for _, l := range netHTTPLeaveOuts {
				left[l.test] = left[l.test] || swap == "both" || swap == l.with
			}
			var names []string
			for _, name := range s.tests {
				if !left[name] && (long || !aboutTime.MatchString(name)) {
					names = append(names, name)
				}
			}
			out, err := s.run(swap, "10m", names...)
			runAgain(t, out, err, func(names ...string) ([]byte, error) { return s.run(swap, "2m", names...) })
			passed := len(regexp.MustCompile(`(?m)^ +--- PASS: Test\w+/h2`).FindAll(out, -1))
			t.Logf("%d tests, %d over HTTP/2 passed, %d skipped", len(names), passed, len(regexp.MustCompile(`(?m)^ *--- SKIP`).FindAll(out, -1)))
			if passed < 200 {
				t.Errorf("only %d tests over HTTP/2 have passed", passed)
			}
			for _, side := range []string{"server", "client"} {
				if used := strings.Contains(string(out), "h2http's "+side+" is used"); used != (swap == side || swap == "both") {
					t.Errorf("h2http's %s: used is %v", side, used)
				}
			}
		})
	}
	if !long {
		return
	}
	for _, l := range netHTTPLeaveOuts {
		t.Run("left out/"+l.test, func(t *testing.T) {
			out, err := s.run(l.with, "20s", l.test)
			if err == nil {
				t.Errorf("the test passes; it is left out for this reason: %s\n%s", l.reason, out)
			} else if !strings.Contains(string(out), l.says) {
				t.Errorf("%v, without %q:\n%s", err, l.says, failures(out))
			}
		})
	}
}

// aboutTime matches the names of the tests that run with TARN_LONG=1 alone: of those that measure time or wait for it, and of
// some others. TestTransportCancelRequestBeforeDo compares the error with a variable that net/http does not export when the
// connection is made before the request is cancelled.
var aboutTime = regexp.MustCompile(`Timeout|Deadline|Idle|Flaky|Slow|Race|Delay|Expire|Limit|GC|Crash|CancelRequestBeforeDo`)

// runAgain runs what failed of a run by itself, up to two times, and fails when something fails each time. net/http's tests give
// connections 200 ms to close, and the like: with ten busy processes on two cores, 2 of 36 runs of all
// of them had such a failure.
func runAgain(t *testing.T, out []byte, err error, tests func(names ...string) ([]byte, error)) {
	t.Helper()
	for range 2 {
		names := failed(out)
		if err == nil || len(names) == 0 { // it ended in a panic before it named a failed test
			break
		}
		t.Log(failures(out))
		leftout.Note(t, "failed beside others, and runs by itself: "+strings.Join(names, ", "))
		out, err = tests(names...)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, failures(out))
	}
}

// failed is the names of the tests that failed in a run, without those of their parts; none of a run that a panic or the
// time limit ended, in which others did not run.
func failed(out []byte) (names []string) {
	if !bytes.HasSuffix(out, []byte("\nFAIL\n")) {
		return nil
	}
	for _, m := range regexp.MustCompile(`(?m)^--- FAIL: (\S+)`).FindAllSubmatch(out, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// failures is what the failed tests of a verbose run have printed, or the run's end when it names none.
func failures(out []byte) string {
	result := regexp.MustCompile(`^ *--- (FAIL|PASS|SKIP): (\S+)`)
	current := regexp.MustCompile(`^=== [A-Z]+ +(\S+)`)
	bad, name := map[string]bool{}, ""
	printed := map[string][]string{}
	var order []string
	for line := range strings.Lines(string(out)) {
		if m := result.FindStringSubmatch(line); m != nil {
			if name = m[2]; m[1] == "FAIL" {
				bad[name] = true
				order = append(order, name)
			}
		} else if m := current.FindStringSubmatch(line); m != nil {
			name = m[1]
		} else {
			printed[name] = append(printed[name], line)
		}
	}
	var b strings.Builder
	for _, name := range order {
		fmt.Fprintf(&b, "--- FAIL: %s\n%s", name, strings.Join(printed[name], ""))
	}
	if b.Len() == 0 {
		return string(out[max(0, len(out)-8000):])
	}
	return b.String()
}

// TestFailures reads what a verbose run of parallel tests prints.
func TestFailures(t *testing.T) {
	const out = `=== RUN   TestA
=== PAUSE TestA
=== RUN   TestB
    b_test.go:1: of no interest
--- PASS: TestB (0.00s)
=== CONT  TestA
=== RUN   TestA/h2
=== CONT  TestC
=== NAME  TestA/h2
    a_test.go:2: not closed
    more of it
--- FAIL: TestA (0.35s)
    --- FAIL: TestA/h2 (0.61s)
=== NAME  TestC
    c_test.go:3: of no interest
--- PASS: TestC (0.00s)
FAIL
`
	if got := failed([]byte(out)); !slices.Equal(got, []string{"TestA"}) {
		t.Errorf("failed: %q", got)
	}
	want := "--- FAIL: TestA\n--- FAIL: TestA/h2\n    a_test.go:2: not closed\n    more of it\n"
	if got := failures([]byte(out)); got != want {
		t.Errorf("failures:\n%s", got)
	}
	if got := failed([]byte(out + "panic: test timed out\n")); got != nil {
		t.Errorf("failed before a panic: %q", got)
	}
	if got := failures([]byte("panic: test timed out\n")); got != "panic: test timed out\n" {
		t.Errorf("failures of a run that ended in a panic: %q", got)
	}
}

// netHTTPSuite is a test binary of net/http's tests.
type netHTTPSuite struct {
	bin, dir string   // and where it runs
	tests    []string // that run over HTTP/2
}

// names of packages that only net/http's own tests may import, and the replacements which newNetHTTPSuite adds to GOROOT
// by an overlay. A package below GOROOT may import the originals.
var netHTTPImports = []struct{ original, replacement, source string }{
	{`"internal/testenv"`, `"tarnhelp/testenv"`, `package testenv

import (
	"context"
	"internal/testenv"
	"os/exec"
	"testing"
)

func Builder() string { return testenv.Builder() }
func Command(t testing.TB, name string, args ...string) *exec.Cmd { return testenv.Command(t, name, args...) }
func CommandContext(t testing.TB, ctx context.Context, name string, args ...string) *exec.Cmd {
	return testenv.CommandContext(t, ctx, name, args...)
}
func GoToolPath(t testing.TB) string   { return testenv.GoToolPath(t) }
func MustHaveSource(t testing.TB)      { testenv.MustHaveSource(t) }
func SkipFlaky(t testing.TB, issue int) { testenv.SkipFlaky(t, issue) }
`},
	{`"internal/nettrace"`, `"tarnhelp/nettrace"`, `package nettrace

import "internal/nettrace"

type LookupIPAltResolverKey = nettrace.LookupIPAltResolverKey
`},
	{`"internal/synctest"`, `"tarnhelp/synctest"`, `package synctest

import "internal/synctest"

func Run(f func()) { synctest.Run(f) }
func Wait()        { synctest.Wait() }
`},
	{`"net/http/internal/testcert"`, `"net/http/tarnhelp/testcert"`, `package testcert

import "net/http/internal/testcert"

var LocalhostCert, LocalhostKey = testcert.LocalhostCert, testcert.LocalhostKey
`},
	{`"net/http/internal"`, `internal "net/http/tarnhelp/chunked"`, `package chunked

import (
	"io"
	"net/http/internal"
)

func NewChunkedWriter(w io.Writer) io.WriteCloser { return internal.NewChunkedWriter(w) }
`},
}

// newNetHTTPSuite makes the tests' package out of GOROOT's sources and builds it. All is done by an overlay:
// nothing is written to GOROOT or to this module.
func newNetHTTPSuite(t *testing.T) *netHTTPSuite {
	goroot := strings.TrimSpace(run(t, "go", "env", "GOROOT"))
	dir := filepath.Join(goroot, "src", "net", "http")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	overlay := map[string]string{ // the tests use what export_test.go exports of net/http
		filepath.Join(dir, "export_for_tests.go"): filepath.Join(dir, "export_test.go"),
	}
	add := func(path, source string) {
		file := filepath.Join(tmp, fmt.Sprintf("%d.go", len(overlay)))
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[path] = file
	}
	var replace []string
	for _, p := range netHTTPImports {
		replace = append(replace, p.original, p.replacement)
		path := strings.Trim(strings.TrimPrefix(p.replacement, "internal "), `"`)
		add(filepath.Join(goroot, "src", filepath.FromSlash(path), "help.go"), p.source)
	}
	imports := strings.NewReplacer(replace...)
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	swap, err := os.ReadFile(filepath.Join("testdata", "nethttp", "swap_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	pkg := filepath.Join(here, "nethttp")
	add(filepath.Join(pkg, "swap_test.go"), string(swap))
	s := &netHTTPSuite{bin: filepath.Join(tmp, "nethttp.test"), dir: dir}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		src := string(b)
		if !strings.Contains(src, "\npackage http_test\n") || strings.Contains(filepath.Base(file), "example") {
			continue
		}
		s.tests = append(s.tests, overHTTP2(src)...)
		src = imports.Replace(src)
		if filepath.Base(file) == "clientserver_test.go" {
			src = swapIn(t, src)
		}
		add(filepath.Join(pkg, filepath.Base(file)), src)
	}
	b, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, "overlay.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-vet=off", "-overlay", filepath.Join(tmp, "overlay.json"), "-c", "-o", s.bin, "./nethttp")
	if out, err := build.CombinedOutput(); err != nil { // not by run, which ends it after a minute
		t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// swapIn has the tests' constructor call h2http, after the client's settings are complete: net/http's own takes
// them from the Transport at each use.
func swapIn(t *testing.T, src string) string {
	cut := func(s, sep string) (before, after string) {
		before, after, ok := strings.Cut(s, sep)
		if !ok {
			t.Fatalf("clientserver_test.go does not contain %q", sep)
		}
		return before, after
	}
	const configure = "\tif mode == http2Mode || mode == http2UnencryptedMode {\n\t\tif err := ExportHttp2ConfigureTransport(cst.tr)"
	const cleanup = "\tt.Cleanup(func() {\n\t\tcst.close()\n\t})\n\treturn cst"
	head, rest := cut(src, configure)
	body, _ := cut(configure+rest, "\tfor _, f := range transportFuncs {")
	_, rest = cut(rest, "\tfor _, f := range transportFuncs {")
	settings, tail := cut(rest, cleanup)
	src = head + "\tfor _, f := range transportFuncs {" + settings + body + cleanup + tail
	for _, old := range []string{"ExportHttp2ConfigureServer(cst.ts.Config, nil)", "ExportHttp2ConfigureTransport("} {
		cut(src, old)
	}
	src = strings.ReplaceAll(src, "ExportHttp2ConfigureServer(cst.ts.Config, nil)", "swapServer(t, cst.ts.Config)")
	return strings.ReplaceAll(src, "ExportHttp2ConfigureTransport(", "swapTransport(")
}

// overHTTP2 returns the names of a file's tests that run over HTTP/2.
func overHTTP2(src string) (names []string) {
	for _, m := range regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{(.*?)(?:\n\}| \}\n)`).FindAllStringSubmatch(src, -1) {
		if body := m[2]; strings.Contains(body, "run(t") || strings.Contains(body, "runSynctest(t") || strings.Contains(body, "http2") || strings.Contains(body, "h12Compare") {
			names = append(names, m[1])
		}
	}
	return names
}

// run runs the tests, those with HTTP/2 only of them that run with several protocols.
func (s *netHTTPSuite) run(swap, timeout string, names ...string) ([]byte, error) {
	cmd := exec.Command(s.bin, "-test.run", "^("+strings.Join(names, "|")+")$/^h2", "-test.short", "-test.v", "-test.timeout", timeout)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "TARN_SWAPPED="+swap)
	return cmd.CombinedOutput()
}
