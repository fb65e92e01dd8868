package foreign

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/npm"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// descriptors writes the test service's files, with all they import, for programs without generated code.
func descriptors(t testing.TB) string {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(testpb.File_grpc_testing_test_proto)
	data, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "test.binpb")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// options of a server in another language, as JSON.
type options struct {
	Port       int    `json:"port,omitempty"`
	MaxStreams int    `json:"maxStreams,omitempty"`
	MaxAge     int    `json:"maxAge,omitempty"` // of a connection, in ms
	Gzip       bool   `json:"gzip,omitempty"`   // compress responses
	Cert       string `json:"cert,omitempty"`   // PEM files; both or neither
	Key        string `json:"key,omitempty"`
}

// language is a gRPC implementation whose server the tests start.
type language struct {
	name string
	// command is its program and arguments, which are followed by the options.
	command func(t testing.TB, o options) []string
	// noAge: the server has no setting for the age of connections.
	noAge bool
}

// text is o as JSON.
func (o options) text() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// languages are grpcio and grpc-js, and in the long form tonic and gRPC C++.
func languages() []language {
	if os.Getenv("TARN_LONG") == "" {
		return all[:2]
	}
	return all
}

var all = []language{
	{name: "grpcio", command: func(t testing.TB, o options) []string {
		python := os.Getenv("TARN_GRPCIO") // an interpreter with another version of grpcio
		if python == "" {
			python = "/usr/bin/python3"
			if _, err := os.Stat("/usr/lib/python3/dist-packages/grpc"); err != nil {
				leftout.Skip(t, "grpcio is not installed (Debian: python3-grpcio)")
			}
		}
		return []string{python, "testdata/server.py", descriptors(t), o.text()}
	}},
	{name: "grpc-js", command: func(t testing.TB, o options) []string {
		leftout.Need(t, "nodejs, npm", "node")
		return []string{"node", "testdata/server.cjs", descriptors(t), o.text(), npm.Modules(t, "../..", "@grpc/grpc-js", "@grpc/proto-loader")}
	}},
	{name: "tonic", noAge: true, command: func(t testing.TB, o options) []string {
		if o.Cert != "" {
			t.Skip("tonic is built without TLS")
		}
		return []string{tonic(t), "serve", strconv.Itoa(o.Port), strconv.Itoa(o.MaxStreams)}
	}},
	{name: "grpc-cpp", command: func(t testing.TB, o options) []string {
		compress := "0"
		if o.Gzip {
			compress = "1"
		}
		return []string{cpp(t), "serve", strconv.Itoa(o.Port), strconv.Itoa(o.MaxStreams), strconv.Itoa(o.MaxAge), compress, o.Cert, o.Key}
	}},
}

// process is a server in a process of its own.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Writer
	port  string
	ended chan struct{}
}

// start runs a server until the test ends.
func start(t testing.TB, l language, o options) *process {
	t.Helper()
	args := l.command(t, o)
	p := &process{t: t, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	var complaints strings.Builder
	p.cmd.Stderr = &complaints
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		defer close(p.ended)
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && complaints.Len() > 0 {
			t.Logf("standard error:\n%.4000s", complaints.String())
		}
	})
	if err != nil {
		p.kill()
		t.Fatalf("%s: %v\n%s", args, err, complaints.String())
	}
	p.port = strings.TrimSpace(line)
	return p
}

func (p *process) addr() string { return "127.0.0.1:" + p.port }

// kill ends the process at once; the kernel closes its connections.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// drain asks the server to finish its calls and end.
func (p *process) drain() {
	if _, err := io.WriteString(p.stdin, "drain\n"); err != nil {
		p.t.Error(err)
	}
}
