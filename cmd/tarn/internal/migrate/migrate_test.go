package migrate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// module writes files to a new module, which has the requirements of one of this repository's, in the versions of module cmd/tarn if that has
// them, too: the go command compiles what the tests import, and has those already.
func module(t *testing.T, like string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	files["go.sum"] = read(t, root, like, "go.sum") + read(t, root, "cmd/tarn", "go.sum")
	mod := read(t, root, like, "go.mod")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(read(t, root, "cmd/tarn", "go.mod"), -1) {
		mod = regexp.MustCompile(`(?m)^(\t|require )`+regexp.QuoteMeta(m[1])+` v\S+`).ReplaceAllString(mod, "${1}"+m[1]+" "+m[2])
	}
	mod = strings.Replace(mod, "module github.com/tarn-go/tarn/"+like, "module example.com/app", 1)
	mod = strings.ReplaceAll(mod, "=> ../..", "=> "+root)
	mod = strings.ReplaceAll(mod, "=> ..\n", "=> "+root+"/rpc\n")
	if like == "rpc/opentelemetry" {
		mod += "\nrequire github.com/tarn-go/tarn/rpc/opentelemetry v0.0.0\n" +
			"replace github.com/tarn-go/tarn/rpc/opentelemetry => " + root + "/rpc/opentelemetry\n"
	}
	files["go.mod"] = mod
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func migrate(t *testing.T, dir string, args ...string) (int, string) {
	t.Helper()
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	var out, errs bytes.Buffer
	status := Run(t.Context(), args, cli.Streams{Out: &out, Err: &errs})
	return status, out.String() + errs.String()
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMigrate changes a program, and changes it back. What does not compile is listed after each.
func TestMigrate(t *testing.T) {
	dir := module(t, "cmd/tarn", map[string]string{"main.go": source, "dictated.go": dictated, "empty.go": emptied, "library/library.go": library})
	if status, out := migrate(t, dir, "-n"); status != cli.OK || read(t, dir, "main.go") != source || !strings.Contains(out, "places would change\n") ||
		!regexp.MustCompile(`\n  \d+: - .*grpc\.NewClient\(addr.*\n +\+ .*rpc\.NewClient\(addr`).MatchString(out) {
		t.Fatalf("-n: status %d, %s", status, out)
	}
	status, out := migrate(t, dir)
	got := read(t, dir, "main.go")
	if status != cli.OK {
		t.Fatalf("status %d, %s\n%s", status, out, got)
	}
	for _, want := range []string{
		`"github.com/tarn-go/tarn/rpc"`, `"google.golang.org/grpc"`,
		"cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption",
		"func options() []rpc.DialOption", "rpc.WithUnaryInterceptor(intercept)", "(*rpc.ClientConn, error)",
		"rpc.NewClient(addr, options()...)", "rpc.NewServer(rpc.MaxRecvMsgSize(1<<20), rpc.ChainUnaryInterceptor())",
		"library.Use(rpc.AsGRPC(cc))", `grpc.Invoke(context.Background(), "/a/b", nil, nil, rpc.AsGRPC(cc))`, `library.Dial(grpc.WithUserAgent("app"))`, "grpc.WaitForReady(true)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if read(t, dir, "library/library.go") != library {
		t.Error("a generated file was changed")
	}
	want := strings.NewReplacer(`"google.golang.org/grpc"`, "\"github.com/tarn-go/tarn/rpc\"\n\t\"google.golang.org/grpc\"",
		`own, _ := grpc.`, `own, _ := rpc.`, "library.Use(own)", "library.Use(rpc.AsGRPC(own))").Replace(dictated)
	if got := read(t, dir, "dictated.go"); got != want {
		t.Errorf("of what a library's types prescribe only a client of the program's own is to change:\n%s", got)
	}
	want = strings.NewReplacer("google.golang.org/grpc", "github.com/tarn-go/tarn/rpc", "grpc.", "rpc.").Replace(emptied)
	want = strings.NewReplacer("library.Dial(rpc.", "library.Dial(grpc.", `"github.com/tarn-go/tarn/rpc"`, "\"github.com/tarn-go/tarn/rpc\"\n\t\"google.golang.org/grpc\"").Replace(want)
	if got := read(t, dir, "empty.go"); got != want {
		t.Errorf("options that are nil or empty:\n%s", got)
	}
	stays := "stays with grpc-go, because a library prescribes its type:\n  " + filepath.Join(dir, "dictated.go") + ":35:69: grpc.NewServer\n"
	if !strings.HasSuffix(out, stays) {
		t.Errorf("%s\nis not at the end of\n%s", stays, out)
	}
	if status, out := migrate(t, dir); status != cli.OK || out != stays {
		t.Errorf("a second time: status %d, %s", status, out)
	}
	if status, out := migrate(t, dir, "-back"); status != cli.OK || read(t, dir, "main.go") != source || read(t, dir, "dictated.go") != dictated || read(t, dir, "empty.go") != emptied {
		t.Errorf("back: status %d, %s\n%s\n%s\n%s", status, out, read(t, dir, "main.go"), read(t, dir, "dictated.go"), read(t, dir, "empty.go"))
	}
	if status, out := migrate(t, dir, "-back"); status != cli.OK || out != "nothing is to be changed\n" {
		t.Errorf("back once more: status %d, %q", status, out)
	}
}

// TestMigrateWhatLibrariesLeaveOpen: where a library has any or a type parameter, the program's own types change,
// and where it has grpc-go's, they stay.
func TestMigrateWhatLibrariesLeaveOpen(t *testing.T) {
	dir := module(t, "cmd/tarn", map[string]string{"main.go": source, "own.go": own, "theirs.go": theirs, "library/library.go": library})
	if status, out := migrate(t, dir); status != cli.OK {
		t.Errorf("status %d, %s", status, out)
	}
	want := strings.NewReplacer(`"google.golang.org/grpc"`, `"github.com/tarn-go/tarn/rpc"`, "grpc.", "rpc.",
		"library.Use(h.cc.Load())", "library.Use(rpc.AsGRPC(h.cc.Load()))", "nil, cc, nil", "nil, rpc.AsGRPC(cc), nil").Replace(own)
	if got := read(t, dir, "own.go"); got != want {
		t.Errorf("of what is the program's own all is to change:\n%s", got)
	}
	if got := read(t, dir, "theirs.go"); got != theirs {
		t.Errorf("of what is the library's nothing is to change:\n%s", got)
	}
	if status, out := migrate(t, dir, "-back"); status != cli.OK || read(t, dir, "own.go") != own {
		t.Errorf("back: status %d, %s\n%s", status, out, read(t, dir, "own.go"))
	}
}

// TestMigrateKeepsWhatLibrariesMake: the types of variables stay that get nothing but a library's clients and servers.
func TestMigrateKeepsWhatLibrariesMake(t *testing.T) {
	dir := module(t, "cmd/tarn", map[string]string{"main.go": source, "received.go": received, "library/library.go": library})
	both := module(t, "cmd/tarn", map[string]string{"main.go": source, "mixed.go": mixed, "library/library.go": library})
	if status, out := migrate(t, dir); status != cli.OK {
		t.Errorf("status %d, %s", status, out)
	}
	want := strings.NewReplacer("grpc.ErrServerStopped", "rpc.ErrServerStopped",
		`"google.golang.org/grpc"`, "\"github.com/tarn-go/tarn/rpc\"\n\t\"google.golang.org/grpc\"").Replace(received)
	if got := read(t, dir, "received.go"); got != want {
		t.Errorf("the types of clients and servers that a library made are to stay:\n%s", got)
	}
	status, out := migrate(t, both)
	if got := read(t, both, "mixed.go"); !strings.Contains(got, "cc *rpc.ClientConn") || !strings.Contains(got, "rpc.NewClient(") {
		t.Errorf("a type that one of the program's own clients has is to change:\n%s", got)
	}
	if status != cli.Failed || strings.Count(out, "mixed.go:") != 2 || !strings.Contains(out, "mixed.go:12:18: cannot use library.Dial()") {
		t.Errorf("status %d, %s", status, out)
	}
}

// TestMigrateKeepsWhatLibrariesImplement: an interface of the program stays if a library's type implements it, and so do the methods of
// its other types.
func TestMigrateKeepsWhatLibrariesImplement(t *testing.T) {
	dir := module(t, "cmd/tarn", map[string]string{"main.go": source, "satisfied.go": satisfied, "library/library.go": library})
	if status, out := migrate(t, dir, "."); status != cli.OK {
		t.Errorf("status %d, %s", status, out)
	}
	want := strings.NewReplacer(`"google.golang.org/grpc"`, "\"github.com/tarn-go/tarn/rpc\"\n\t\"google.golang.org/grpc\"",
		"grpc.NewClient", "rpc.NewClient", "(*grpc.ClientConn, error)", "(*rpc.ClientConn, error)", "Over(cc)\n", "Over(rpc.AsGRPC(cc))\n").Replace(satisfied)
	if got := read(t, dir, "satisfied.go"); got != want {
		t.Errorf("only what no library's type implements is to change:\n%s", got)
	}
}

// interceptors is a program with types for its interceptors, and with functions that it can give to a client by name.
const interceptors = `package main

import (
	"context"

	"google.golang.org/grpc"
)

type interceptor interface {
	Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error
	Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error)
}

type unary func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error

type timed struct {
	next func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error
}

var _ interceptor = timed{}

func (timed) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return timed{invoker}.next(ctx, method, req, reply, cc, opts...)
}

func (timed) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return streamer(ctx, desc, cc, method, opts...)
}

func connect(target string, i interceptor, u unary) (*grpc.ClientConn, error) {
	return grpc.NewClient(target, grpc.WithChainUnaryInterceptor(i.Unary, grpc.UnaryClientInterceptor(u)), grpc.WithStreamInterceptor(i.Stream))
}

func main() {
	if cc, err := connect("127.0.0.1:1", timed{}, timed{}.Unary); err == nil {
		cc.Close()
	}
}
`

// TestMigrateKeepsInterceptors: types with the signature of an interceptor, or of what it calls, stay: in interfaces, named and not.
func TestMigrateKeepsInterceptors(t *testing.T) {
	dir := module(t, "cmd/tarn", map[string]string{"main.go": interceptors})
	if status, out := migrate(t, dir, "."); status != cli.OK {
		t.Errorf("status %d, %s", status, out)
	}
	want := strings.NewReplacer(`	"google.golang.org/grpc"`, "\t\"github.com/tarn-go/tarn/rpc\"\n\t\"google.golang.org/grpc\"",
		"grpc.NewClient", "rpc.NewClient", "(*grpc.ClientConn, error)", "(*rpc.ClientConn, error)", "grpc.With", "rpc.With").Replace(interceptors)
	if got := read(t, dir, "main.go"); got != want {
		t.Errorf("only what makes the client is to change:\n%s", got)
	}
}

// reports is a program with the options of packages that have counterparts of their own.
const reports = `package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/stats/opentelemetry"
)

func server(o opentelemetry.Options) *grpc.Server {
	opts := []grpc.ServerOption{orca.CallMetricsServerOption(nil), opentelemetry.ServerOption(o)}
	return grpc.NewServer(opts...)
}

func client(o opentelemetry.Options) (*grpc.ClientConn, error) {
	return grpc.NewClient("127.0.0.1:1", opentelemetry.DialOption(o))
}

func main() {
	server(opentelemetry.Options{}).Stop()
	if cc, err := client(opentelemetry.Options{}); err == nil {
		cc.Close()
	}
}
`

// additions is a file that uses what grpc-go does not have.
const additions = `package main

import (
	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
)

func more() {
	s := rpc.NewServer(rpc.Pool(tarn.Shared()),
		rpc.MaxRecvMsgSize(1))
	s.Stop()
}
`

// both is a file of which -back removes an import above a line that no longer compiles.
const both = `package main

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tarn-go/tarn/rpc"
)

func both(ctx context.Context, cc *rpc.ClientConn) grpc.ClientConnInterface {
	cc.TransportStats()
	return cc
}
`

// TestMigrateReports exchanges the options of orca and stats/opentelemetry, which need package
// rpc/opentelemetry, and back; then it lists what grpc-go does not have, each place once and with its line.
func TestMigrateReports(t *testing.T) {
	dir := module(t, "rpc/opentelemetry", map[string]string{"main.go": reports})
	status, out := migrate(t, dir)
	got := read(t, dir, "main.go")
	if status != cli.OK {
		t.Fatalf("status %d, %s\n%s", status, out, got)
	}
	for _, want := range []string{
		"rpc.CallMetricsServerOption(orca.CallMetricsServerOption(nil)), tarnopentelemetry.ServerOption(o)}", "[]rpc.ServerOption{",
		"tarnopentelemetry.DialOption(o)", "opentelemetry.Options{}", `tarnopentelemetry "github.com/tarn-go/tarn/rpc/opentelemetry"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "more.go"), []byte(additions), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "both.go"), []byte(both), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := load(t.Context(), ".", []string{"./..."}, toGRPC) // as -n does, of a package that is not there
	if err != nil {
		t.Fatal(err)
	}
	p.pairs[1].err = errors.New("it cannot be imported")
	p.rewrite()
	var listed strings.Builder
	if err := p.report(t.Context(), &listed, io.Discard); err != errLeft {
		t.Error(err)
	}
	for _, want := range []string{"both.go:12:5: cc.TransportStats undefined", "has the counterpart of opentelemetry.ServerOption; it cannot be imported"} {
		if strings.Count(listed.String(), want) != 1 {
			t.Errorf("%q is not once in\n%s", want, &listed)
		}
	}
	if n := strings.Count(listed.String(), "both.go:"); n != 2 {
		t.Errorf("%d lines about both.go in\n%s", n, &listed)
	}
	status, out = migrate(t, dir, "-back")
	if strings.Count(out, "both.go:10:5: cc.TransportStats undefined") != 1 || strings.Count(out, "both.go:") != 2 {
		t.Errorf("back: %s\n%s", out, read(t, dir, "both.go"))
	}
	if got := read(t, dir, "main.go"); got != reports {
		t.Errorf("back: %s", got)
	}
	if got := read(t, dir, "more.go"); !strings.Contains(got, "grpc.NewServer(rpc.Pool(tarn.Shared()),\n\t\tgrpc.MaxRecvMsgSize(1))") {
		t.Errorf("back: %s", got)
	}
	if want := "more.go:10:21: rpc.Pool has no counterpart in package grpc: remove it\n"; status != cli.Failed ||
		!strings.Contains(out, want) || strings.Count(out, "more.go:") != 2 {
		t.Errorf("status %d, %s", status, out)
	}
}

// TestMigrateRefuses: packages that do not compile, modules without package rpc, and requirements without their sums.
func TestMigrateRefuses(t *testing.T) {
	sumless := module(t, "cmd/tarn", map[string]string{"main.go": source, "library/library.go": library})
	dir := module(t, "cmd/tarn", map[string]string{"main.go": "package main\n\nfunc main() { nothing() }\n"})
	if status, out := migrate(t, dir); status != cli.Failed || !strings.Contains(out, "does not compile") {
		t.Errorf("status %d, %s", status, out)
	}
	bare := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/bare\n\ngo 1.25.0\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(bare, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOPROXY", "off")
	if status, out := migrate(t, bare); status != cli.Failed || !strings.Contains(out, "go get -t "+rpcPath+" ./... (before v0.1.0: docs/") || strings.Count(out, "go get") != 1 {
		t.Errorf("status %d, %s", status, out)
	}
	if status, out := migrate(t, bare, "-back"); status != cli.Failed || !strings.HasSuffix(out, "go get -t "+grpcPath+" ./...\n") || strings.Count(out, "go get") != 1 {
		t.Errorf("-back: status %d, %s", status, out)
	}
	if err := os.Remove(filepath.Join(bare, "go.mod")); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"./...", "main.go"} {
		if status, out := migrate(t, bare, pattern); status != cli.Failed || !strings.Contains(out, "no go.mod here") {
			t.Errorf("%s without go.mod: status %d, %s", pattern, status, out)
		}
	}
	if err := os.Remove(filepath.Join(sumless, "go.sum")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(sumless)
	t.Setenv("GOFLAGS", "-mod=readonly")
	var out bytes.Buffer
	if status := Run(t.Context(), nil, cli.Streams{Out: &out, Err: &out}); status != cli.Failed || !strings.Contains(out.String(), "missing go.sum entry") {
		t.Errorf("without go.sum: status %d, %s", status, &out)
	}
	if status, _ := migrate(t, bare, "-x"); status != cli.Usage {
		t.Errorf("-x: status %d", status)
	}
}
