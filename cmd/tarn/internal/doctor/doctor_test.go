package doctor

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/debug"
)

func doctor(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	status = cli.Run(t.Context(), Command(), args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

// report runs the command with -json.
func report(t *testing.T, args ...string) *Report {
	t.Helper()
	status, out, errs := doctor(t, append([]string{"-json"}, args...)...)
	var r Report
	if err := json.Unmarshal([]byte(out), &r); status != cli.OK || err != nil {
		t.Fatalf("tarn doctor %q: %d, %v: %s", args, status, err, errs)
	}
	return &r
}

// verdict is that on one switch.
func (r *Report) of(name string) Switch {
	for _, s := range r.Switches {
		if s.Name == name {
			return s
		}
	}
	return Switch{}
}

// build compiles the program of testdata.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "server.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./testdata/server").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// start runs the program with a load, and returns its address.
func start(t *testing.T, binary, load string) string {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), binary, load)
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// What a real program is made of and where it spends its time decides, and each load has its own answer.
func TestPrograms(t *testing.T) {
	binary := build(t)
	if r := report(t, binary); r.of("rpc").Verdict != unknown || !strings.Contains(r.of("rpc").Because, "grpc-go v1.") || r.of("smb").Verdict != absent || !strings.HasPrefix(r.Go, "go1.") {
		t.Errorf("of the program alone: %+v", r)
	}
	// Its server of net/http is found without a profile.
	if got := report(t, binary).of("h2http"); got.Verdict != unknown || !strings.Contains(got.Because, "a server of net/http is in it") || !strings.Contains(got.Because, "0.18") || !strings.Contains(got.How, "ConfigureServer") {
		t.Errorf("of the program alone: %+v", got)
	}
	for _, c := range []struct {
		load, verdict string
		others        map[string]string
	}{
		{"grpc", pays, map[string]string{"rpc": pays, "h2http": absent, "smb": absent, "pool": noPay}},
		{"http2", pays, map[string]string{"rpc": noPay, "h2http": pays}},
		{"allocate", mayPay, map[string]string{"rpc": noPay, "h2http": absent, "pool": mayPay}},
		{"compute", "nothing would pay", map[string]string{"rpc": noPay, "h2http": absent, "smb": absent, "pool": noPay, "checks": absent}},
		{"idle", unknown, map[string]string{"rpc": unknown, "h2http": unknown, "pool": unknown}},
	} {
		t.Run(c.load, func(t *testing.T) {
			if testing.Short() && c.load != "grpc" && c.load != "compute" {
				t.Skip("each takes seconds")
			}
			address := start(t, binary, c.load)
			var r *Report
			for _, seconds := range []string{"1", "4", "16", "64"} { // until there are enough samples, also on a busy machine
				r = report(t, "-seconds", seconds, binary, address)
				if !r.CPU.few() || c.load == "idle" {
					break
				}
			}
			if !strings.Contains(r.Verdict, c.verdict) && c.load != "idle" {
				t.Errorf("%q, want %q", r.Verdict, c.verdict)
			}
			if c.load == "grpc" || c.load == "http2" { // both write to sockets all the time
				if got := r.CPU.Activities[calling]; got < worthwhile {
					t.Errorf("system calls take %.3f", got)
				}
			}
			for name, want := range c.others {
				if got := r.of(name); got.Verdict != want || want == unknown && !strings.Contains(got.Because, "under load") {
					t.Errorf("%s %s, want %s: %+v %+v %+v", name, got.Verdict, want, got, r.CPU, r.Heap)
				}
			}
			if c.load == "allocate" && !strings.Contains(r.of("pool").How, "main.frame") {
				t.Errorf("the place is not named: %+v", r.of("pool"))
			}
		})
	}
}

// stack is a sample of functions, the innermost first.
func stack(p *profile.Profile, values []int64, functions ...string) {
	s := &profile.Sample{Value: values}
	for _, name := range functions {
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
		l := &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: f}}}
		p.Function, p.Location, s.Location = append(p.Function, f), append(p.Location, l), append(s.Location, l)
	}
	p.Sample = append(p.Sample, s)
}

func cpuProfile() *profile.Profile {
	return &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}, DurationNanos: 10e9}
}

// A sample belongs to the innermost code that is not the standard library's.
func TestOwners(t *testing.T) {
	for _, c := range []struct {
		stack []string
		owner owner
		of    activity
	}{
		{[]string{"runtime.memmove", "google.golang.org/grpc/internal/transport.(*http2Client).Write", "main.main"}, ownGRPC, copying},
		{[]string{"golang.org/x/net/http2.(*Framer).endWrite", "golang.org/x/net/http2.(*Framer).WriteData", "google.golang.org/grpc/internal/transport.(*loopyWriter).run"}, ownGRPC, computing},
		{[]string{"golang.org/x/net/http2.(*Framer).WriteData", "golang.org/x/net/http2.(*serverConn).serve", "main.main"}, ownHTTP2, computing},
		{[]string{"internal/runtime/syscall.Syscall6", "syscall.write", "net.(*conn).Write", "net/http.(*http2serverConn).serve"}, ownHTTP2, calling},
		{[]string{"internal/runtime/syscall/linux.Syscall6", "syscall.RawSyscall6", "net.(*conn).Write", "main.main"}, ownRest, calling}, // Go 1.26
		{[]string{"internal/runtime/gc/scan.ScanSpanPackedAVX512", "runtime.scanSpan", "runtime.gcDrain", "runtime.gcBgMarkWorker"}, ownRuntime, collecting},
		{[]string{"internal/runtime/atomic.(*Uint64).Add", "runtime.(*mcache).refill", "runtime.mallocgc", "main.main"}, ownRest, allocating},
		{[]string{"internal/runtime/maps.(*Map).getWithoutKey", "runtime.mapaccess2", "main.main"}, ownRest, computing},
		{[]string{"runtime.memclrNoHeapPointers", "runtime.mallocgc", "runtime.makeslice", "encoding/json.Marshal", "main.handle", "net/http.(*http2serverConn).runHandler"}, ownRest, clearing},
		{[]string{"runtime.gcAssistAlloc", "runtime.mallocgc", "google.golang.org/protobuf/proto.Marshal", "google.golang.org/grpc.encode"}, ownRest, collecting},
		{[]string{"runtime.nextFreeFast", "runtime.mallocgcSmallNoscan", "runtime.mallocgc", "github.com/cloudsoda/go-smb2.(*conn).recv"}, ownSMB, allocating},
		{[]string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"}, ownRuntime, collecting},
		{[]string{"runtime.futex", "runtime.findRunnable", "runtime.schedule"}, ownRuntime, computing},
		{[]string{"github.com/tarn-go/tarn/internal/track.(*Table).Add", "github.com/tarn-go/tarn.(*Pool).Get", "main.main"}, ownChecks, computing},
		{[]string{"github.com/tarn-go/tarn/rpc.(*Server).serve"}, ownTarn, computing},
	} {
		p := cpuProfile()
		stack(p, []int64{1, 1}, c.stack...)
		if o, a := ownerOf(p.Sample[0]), activityOf(p.Sample[0]); o != c.owner || a != c.of {
			t.Errorf("%v: of %q, on %q; want %q, %q", c.stack, o, a, c.owner, c.of)
		}
	}
}

// save writes a profile to a file.
func save(t *testing.T, p *profile.Profile) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "profile")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := p.Write(f); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		tenths  int64 // of the processor time that the function takes
		takes   string
		on      string
		verdict string
	}{
		{"rpc", 5, "google.golang.org/grpc.(*Server).serve", "", pays},
		{"rpc", 1, "google.golang.org/grpc.(*Server).serve", "", mayPay},
		{"rpc", 0, "google.golang.org/grpc.(*Server).serve", "", absent},
		{"h2http", 8, "net/http/internal/http2.(*serverConn).serve", "", pays},
		{"smb", 5, "github.com/hirochachacha/go-smb2.(*conn).send", "", mayPay},
		{"smb", 5, "github.com/hirochachacha/go-smb2/internal/crypto/cmac.(*cmac).Write", "github.com/hirochachacha/go-smb2.(*conn).send", pays},
		{"checks", 3, "github.com/tarn-go/tarn/internal/track.(*Table).Add", "", pays},
		{"checks", 0, "github.com/tarn-go/tarn.(*Pool).Get", "", absent},
		{"checks", 1, "github.com/tarn-go/tarn.(*Pool).Get", "", unknown},
	} {
		p := cpuProfile()
		functions := []string{c.takes}
		if c.on != "" {
			functions = append(functions, c.on)
		}
		if c.tenths > 0 {
			stack(p, []int64{c.tenths * 100, c.tenths * 1e9}, functions...)
		}
		stack(p, []int64{(10 - c.tenths) * 100, (10 - c.tenths) * 1e9}, "main.work")
		if got := report(t, save(t, p)).of(c.name); got.Verdict != c.verdict {
			t.Errorf("%d tenths in %s: %+v, want %s", c.tenths, c.takes, got, c.verdict)
		}
	}
}

// TestFewSamples: a profile of too few samples does not say that nothing in it is to be switched.
func TestFewSamples(t *testing.T) {
	p := cpuProfile()
	stack(p, []int64{fewSamples - 1, 1e9}, "main.work")
	r := report(t, save(t, p))
	if got := r.of("h2http"); got.Verdict != unknown || !strings.Contains(got.Because, "too few; ask again with the program under load") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(r.Verdict, "under load") {
		t.Errorf("%q", r.Verdict)
	}
}

// TestSmallBlocks: what functions that allocate no large block spend on allocation is not a pool's to save.
func TestSmallBlocks(t *testing.T) {
	for _, c := range []struct {
		large   string // the function that allocates large blocks
		verdict string
	}{{"main.frame", noPay}, {"main.small", mayPay}} {
		cpu := cpuProfile()
		stack(cpu, []int64{300, 3e9}, "runtime.nextFreeFast", "runtime.mallocgc", "runtime.newobject", "main.small", "main.main")
		stack(cpu, []int64{700, 7e9}, "main.work")
		heap := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}}}
		stack(heap, []int64{1000, 1000 << 10}, c.large, "main.main")
		stack(heap, []int64{1000, 1000 << 4}, "main.small", "main.main")
		if got := report(t, save(t, cpu), save(t, heap)).of("pool"); got.Verdict != c.verdict {
			t.Errorf("large blocks of %s: %+v, want %s", c.large, got, c.verdict)
		}
	}
}

// TestHTTP1: a server whose clients speak HTTP/1.1 is told so.
func TestHTTP1(t *testing.T) {
	p := cpuProfile()
	stack(p, []int64{fewSamples, 1e9}, "main.handle", "net/http.HandlerFunc.ServeHTTP", "net/http.(*conn).serve")
	if got := report(t, save(t, p)).of("h2http"); got.Verdict != absent || !strings.Contains(got.Because, "serves HTTP/1.1") {
		t.Errorf("%+v", got)
	}
}

// TestWithoutHTTP: a program that has neither a server nor a client of net/http is not offered h2http.
func TestWithoutHTTP(t *testing.T) {
	dir := t.TempDir()
	main, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "plain.exe")
	if err := os.WriteFile(main, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, main).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := report(t, binary).of("h2http"); got.Verdict != absent || !strings.Contains(got.Because, "no server of net/http") {
		t.Errorf("%+v", got)
	}
}

// TestSwitched: the profile shows that a program has switched to h2http.
func TestSwitched(t *testing.T) {
	for _, c := range []struct {
		netHTTP int64 // hundredths of the time that are spent in net/http's HTTP/2
		verdict string
	}{{0, absent}, {3, absent}, {40, pays}} {
		p := cpuProfile()
		stack(p, []int64{50, 5e9}, "github.com/tarn-go/tarn/h2.(*Conn).flush", "github.com/tarn-go/tarn/h2http.(*server).serve")
		stack(p, []int64{c.netHTTP, c.netHTTP * 1e8}, "net/http/internal/http2.(*serverConn).serve")
		stack(p, []int64{60, (50 - c.netHTTP) * 1e8}, "main.work")
		if got := report(t, save(t, p)).of("h2http"); got.Verdict != c.verdict || c.verdict == absent && got.Because != "the program has it" {
			t.Errorf("%d hundredths: %+v", c.netHTTP, got)
		}
	}
}

// The debug page of the program says whether checks are missing.
func TestChecks(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "frames"})
	if err != nil {
		t.Fatal(err)
	}
	p := cpuProfile()
	stack(p, []int64{1000, 10e9}, "github.com/tarn-go/tarn.(*Pool).Get", "main.main")
	heap := &profile.Profile{SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}}}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) { p.Write(w) })
	mux.HandleFunc("/debug/pprof/allocs", func(w http.ResponseWriter, r *http.Request) { heap.Write(w) })
	mux.Handle("/debug/tarn/", debug.Handler(pool))
	server := httptest.NewServer(mux)
	defer server.Close()
	if got := report(t, "-seconds", "1", server.URL).of("checks"); got.Verdict != noPay {
		t.Errorf("without misuse: %+v", got)
	}
	pool.Refuse(make([]byte, 100)) // not the pool's
	var r *Report
	for r = report(t, "-seconds=1", server.URL+"/debug/pprof/"); r.of("checks").Verdict == noPay; r = report(t, "-seconds=1", server.URL) { // the page asks twice a second
	}
	if got := r.of("checks"); got.Verdict != pays || !strings.Contains(got.Because, "1 refused") {
		t.Errorf("with misuse: %+v", got)
	}
}

func TestText(t *testing.T) {
	p := cpuProfile()
	stack(p, []int64{600, 6e9}, "runtime.memmove", "google.golang.org/grpc/internal/transport.(*Stream).Read")
	stack(p, []int64{400, 4e9}, "main.work")
	status, out, errs := doctor(t, save(t, p))
	for _, want := range []string{"rpc would pay\n", "rpc would pay: 25% to 39% of the processor time\n", "grpc-go takes 60%", "copying (memmove)  ", "10 s of processor time in 10 s, 1000 samples"} {
		if status != cli.OK || !strings.Contains(out, want) {
			t.Errorf("no %q in (%d) %s%s", want, status, out, errs)
		}
	}
}

func TestWrongSources(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	os.WriteFile(text, []byte("no profile"), 0o600)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	for range (maxProfile >> 20) + 1 {
		w.Write(make([]byte, 1<<20))
	}
	w.Close()
	bomb := filepath.Join(t.TempDir(), "bomb")
	os.WriteFile(bomb, z.Bytes(), 0o600)
	cpu := save(t, cpuProfile())
	short := cpuProfile()
	stack(short, []int64{1}, "main.main")
	inconsistent := save(t, short)
	notFound := httptest.NewServer(http.NotFoundHandler())
	defer notFound.Close()
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"", cli.Usage, "no source"},
		{"-seconds 0 " + cpu, cli.Usage, "between"},
		{"-seconds x " + cpu, cli.Usage, "invalid"},
		{text, cli.Failed, "neither a program"},
		{bomb, cli.Failed, "more than"},
		{inconsistent, cli.Failed, "mismatch"},
		{text + ".not", cli.Failed, "text.not"},
		{cpu + " " + cpu, cli.Failed, "second CPU profile"},
		{"http://", cli.Failed, "not an http"},
		{notFound.URL, cli.Failed, "404 Not Found; a program with net/http/pprof serves it"},
	} {
		if status, out, errs := doctor(t, strings.Fields(c.args)...); status != c.status || out != "" || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d %q %q, want %d and %q", c.args, status, out, errs, c.status, c.says)
		}
	}
}

// The ratios are those that are promised.
func TestFigures(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/performance.md")
	if err != nil {
		t.Skip("not in the repository")
	}
	for _, want := range []string{`2\.8 / 1\.5 / 1\.7 times the calls`, `0\.18 / 0\.28 / 0\.63 of the processor time`, `1\.2 / 4 / 1\.0 times the bytes`} {
		if !regexp.MustCompile(want).Match(page) {
			t.Errorf("docs/performance.md has no %q: saved, and what is printed beside it, are to be mended", want)
		}
	}
}

// TestForeignText: a program's build information may be anybody's, and is printed on a terminal.
func TestForeignText(t *testing.T) {
	for version, want := range map[string]string{"go1.25\x1b[2J": "built by go1.25\uFFFD[2J", " ": "built by  ", "": ""} {
		var out strings.Builder
		r := &Report{Go: version, Modules: []Module{{"google.golang.org/grpc", "v1\x1b]0;x\x07"}}}
		if err := r.print(&out); err != nil || !strings.Contains(out.String(), want) || strings.ContainsAny(out.String(), "\x1b\x07") {
			t.Errorf("%q: %v, %q", version, err, out.String())
		}
	}
}
