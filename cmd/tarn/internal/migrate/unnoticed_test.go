package migrate

import (
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// watched is a program that watches its server by what acts through grpc-go's internals, in part in another package.
const watched = `package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/binarylog"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/gcp/observability"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/profiling"
	"google.golang.org/grpc/profiling/service"

	"example.com/app/monitor"
)

func main() {
	observability.Start(context.Background())
	set := binarylog.SetSink
	set(nil)
	s := grpc.NewServer()
	monitor.Add(s)
	s.Stop()
	grpc.EnableTracing = false
	grpc.EnableTracing = true
	trace := &grpc.EnableTracing
	*trace = false
	experimental.SetDefaultBufferPool(mem.NopBufferPool{})
	profiling.Enable(true)
	service.Init(nil)
}
`

const monitor = `package monitor

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/service"
)

func Add(s grpc.ServiceRegistrar) { service.RegisterChannelzServiceToServer(s) }
`

// TestUnnoticed lists what compiles and has no effect any more, if a client or server is changed.
func TestUnnoticed(t *testing.T) {
	dir := module(t, "cmd/tarn", map[string]string{"main.go": watched, "monitor/monitor.go": monitor,
		"observability/go.mod":           "module google.golang.org/grpc/gcp/observability\n",
		"observability/observability.go": "package observability\n\nimport \"context\"\n\nfunc Start(context.Context) error { return nil }\n",
	})
	mod := read(t, dir, "go.mod") + "\nrequire google.golang.org/grpc/gcp/observability v0.0.0\n\nreplace google.golang.org/grpc/gcp/observability => ./observability\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, out := migrate(t, dir, "./monitor"); status != cli.OK {
		t.Errorf("nothing is changed: status %d, %s", status, out)
	}
	status, out := migrate(t, dir)
	for _, want := range []string{
		"main.go:19:16: observability.Start: it sees no calls", "main.go:20:19: binarylog.SetSink: it gets no calls",
		"main.go:26:7: grpc.EnableTracing: it does not trace", "main.go:27:17: grpc.EnableTracing: it does not trace",
		"main.go:29:15: experimental.SetDefaultBufferPool: ", "main.go:30:12: profiling.Enable: it profiles no calls",
		"main.go:31:10: service.Init: it profiles no calls",
		"monitor.go:8:45: service.RegisterChannelzServiceToServer: it does not list",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is not once in\n%s", want, out)
		}
	}
	if status != cli.Failed || strings.Count(out, ".go:")-strings.Count(out, ".go: ") != 8 {
		t.Errorf("status %d\n%s", status, out)
	}
}

// TestUnnoticedXDS lists the import of grpc-go's package xds, which this module cannot load.
func TestUnnoticedXDS(t *testing.T) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "main.go", "package main\n\nimport _ \"google.golang.org/grpc/xds\"\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{}
	f := &file{p: p, pkg: &packages.Package{Fset: fset, TypesInfo: &types.Info{}}, ast: parsed, name: "main.go"}
	f.leaveUnnoticed()
	if len(p.left) != 1 || p.left[0].line != 3 || p.left[0].what != xdsAdvice {
		t.Errorf("%v", p.left)
	}
}

// TestMissingModule: nothing is changed while the module of package rpc/opentelemetry is not required.
func TestMissingModule(t *testing.T) {
	dir := module(t, "rpc/opentelemetry", map[string]string{"main.go": reports})
	mod := strings.NewReplacer("require github.com/tarn-go/tarn/rpc/opentelemetry v0.0.0\n", "", "replace github.com/tarn-go/tarn/rpc/opentelemetry", "// ").Replace(read(t, dir, "go.mod"))
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOPROXY", "off")
	if status, out := migrate(t, dir); status != cli.Failed || !strings.Contains(out, "go get -t github.com/tarn-go/tarn/rpc/opentelemetry ./...") || read(t, dir, "main.go") != reports {
		t.Errorf("status %d, %s\n%s", status, out, read(t, dir, "main.go"))
	}
}
