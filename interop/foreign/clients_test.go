package foreign

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// service is what the servers of testdata do, too.
type service struct {
	testpb.UnimplementedTestServiceServer
	hanging atomic.Int64
	open    atomic.Int64 // handlers of FullDuplexCall
	late    atomic.Int64 // how long after its deadline a handler that hangs has learnt of it, at most, in ns
}

func (s *service) metadata(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	header, trailer := metadata.MD{}, metadata.MD{}
	if v := md["x-grpc-test-echo-initial"]; v != nil {
		header["x-grpc-test-echo-initial"] = v
	}
	if v := md["x-grpc-test-echo-trailing-bin"]; v != nil {
		trailer["x-grpc-test-echo-trailing-bin"] = v
	}
	for key, to := range map[string]metadata.MD{"x-header-size": header, "x-trailer-size": trailer} {
		if v := md[key]; v != nil {
			n, _ := strconv.Atoi(v[0])
			to.Set("x-big", strings.Repeat("v", n))
		}
	}
	grpc.SendHeader(ctx, header)
	grpc.SetTrailer(ctx, trailer)
	if md["x-hang"] != nil {
		s.hanging.Add(1)
		<-ctx.Done()
		if deadline, ok := ctx.Deadline(); ok {
			for late := int64(time.Since(deadline)); ; {
				if old := s.late.Load(); old >= late || s.late.CompareAndSwap(old, late) {
					break
				}
			}
		}
		s.hanging.Add(-1)
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

func end(s *testpb.EchoStatus) error {
	return status.Error(codes.Code(s.GetCode()), s.GetMessage())
}

func (s *service) EmptyCall(ctx context.Context, _ *testpb.Empty) (*testpb.Empty, error) {
	grpc.SetHeader(ctx, metadata.Pairs("x-hanging", strconv.FormatInt(s.hanging.Load(), 10)))
	return &testpb.Empty{}, nil
}

func (s *service) UnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if err := s.metadata(ctx); err != nil {
		return nil, err
	}
	if err := end(in.ResponseStatus); err != nil {
		return nil, err
	}
	return &testpb.SimpleResponse{Payload: body(int(in.ResponseSize))}, nil
}

func send(in *testpb.StreamingOutputCallRequest, out interface {
	Send(*testpb.StreamingOutputCallResponse) error
}) error {
	for _, p := range in.ResponseParameters {
		if err := out.Send(&testpb.StreamingOutputCallResponse{Payload: body(int(p.Size))}); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) StreamingOutputCall(in *testpb.StreamingOutputCallRequest, out grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	return send(in, out)
}

func (s *service) StreamingInputCall(in grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	sum := 0
	for {
		m, err := in.Recv()
		if err == io.EOF {
			return in.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		sum += len(m.GetPayload().GetBody())
	}
}

func (s *service) FullDuplexCall(both grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	s.open.Add(1)
	defer s.open.Add(-1)
	for {
		m, err := both.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := end(m.ResponseStatus); err != nil {
			return err
		}
		if err := send(m, both); err != nil {
			return err
		}
	}
}

func (s *service) HalfDuplexCall(both grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	var all []*testpb.StreamingOutputCallRequest
	for {
		m, err := both.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	for _, m := range all {
		if err := send(m, both); err != nil {
			return err
		}
	}
	return nil
}

// server is a server of either implementation.
type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
	GracefulStop()
}

// makers are the two implementations of a server, in the order of sides.
var makers = []struct {
	name string
	make func(t testing.TB, age keepalive.ServerParameters) server
}{
	{"tarn", func(t testing.TB, age keepalive.ServerParameters) server {
		return rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.KeepaliveParams(age), rpc.MaxHeaderListSize(1<<20))
	}},
	{"grpc-go", func(_ testing.TB, age keepalive.ServerParameters) server {
		return grpc.NewServer(grpc.WaitForHandlers(true), grpc.KeepaliveParams(age), grpc.MaxHeaderListSize(1<<20))
	}},
}

// serve runs a server until the returned function is called.
func serve(t testing.TB, s server, addr string) (at string, stop func(graceful bool)) {
	t.Helper()
	return serveService(t, s, addr, &service{})
}

// serveService is serve with a service that the test looks at.
func serveService(t testing.TB, s server, addr string, svc *service) (at string, stop func(graceful bool)) {
	t.Helper()
	return serveOn(t, s, addr, svc, &counter{})
}

// counter is a listener that counts connections.
type counter struct {
	net.Listener
	accepted atomic.Int64
}

func (c *counter) Accept() (net.Conn, error) {
	nc, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return nc, err
}

func serveOn(t testing.TB, s server, addr string, svc *service, counted *counter) (at string, stop func(graceful bool)) {
	t.Helper()
	var lis net.Listener
	var err error
	for deadline := time.Now().Add(10 * time.Second); ; { // the port may have connections that are being closed
		if lis, err = net.Listen("tcp", addr); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	testpb.RegisterTestServiceServer(s, svc)
	done := make(chan error, 1)
	counted.Listener = lis
	go func() { done <- s.Serve(counted) }()
	return lis.Addr().String(), func(graceful bool) {
		if graceful {
			s.GracefulStop()
		}
		s.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // Serve may begin after Stop
			t.Error(err)
		}
	}
}

// built returns the directory of programs that tests build, which they do when TARN_LONG is set, as that takes a minute.
func built(t testing.TB) string {
	t.Helper()
	if os.Getenv("TARN_LONG") == "" {
		leftout.Note(t, "tonic and gRPC C++ are built with TARN_LONG=1 only")
		t.Skip()
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "tarn-foreign")
}

// tonic is the program of testdata/tonic.
func tonic(t testing.TB) string {
	t.Helper()
	target := built(t)
	leftout.Need(t, "cargo", "cargo")
	cmd := exec.Command("cargo", "build", "--quiet", "--target-dir", target)
	cmd.Dir = "testdata/tonic"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(target, "debug", "foreign")
}

// cpp is the program of testdata/cpp.
func cpp(t testing.TB) string {
	t.Helper()
	target := built(t)
	leftout.Need(t, "g++, protobuf-compiler-grpc, libgrpc++-dev, libprotobuf-dev, pkg-config", "g++", "protoc", "grpc_cpp_plugin", "pkg-config")
	source, err := os.ReadFile("testdata/cpp/main.cc")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(target, fmt.Sprintf("cpp-%x", sha256.Sum256(source)))
	if _, err := os.Stat(program); err == nil {
		return program
	}
	plugin, err := exec.LookPath("grpc_cpp_plugin")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := []string{"grpc/testing/empty", "grpc/testing/messages", "grpc/testing/test"}
	args := []string{"--descriptor_set_in=" + descriptors(t), "--cpp_out=" + dir, "--grpc_out=" + dir, "--plugin=protoc-gen-grpc=" + plugin}
	sources := "main.cc"
	for _, f := range files {
		args = append(args, f+".proto")
		sources += " " + f + ".pb.cc " + f + ".grpc.pb.cc"
	}
	run := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("protoc", args...)
	if err := os.WriteFile(filepath.Join(dir, "main.cc"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	run("sh", "-c", "g++ -std=c++17 -O1 -I. -o program "+sources+" $(pkg-config --cflags --libs grpc++ protobuf)")
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	// Under its name the program is whole: another test binary may run it meanwhile.
	fresh := fmt.Sprintf("%s.%d", program, os.Getpid())
	run("cp", "program", fresh)
	if err := os.Rename(fresh, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// programs are clients in other languages.
var programs = []struct {
	name  string
	build func(t testing.TB) string
}{{"tonic", tonic}, {"grpc-cpp", cpp}}

// TestClients makes a client in another language call Tarn's server and grpc-go's, all calls on one connection: it observes the same.
func TestClients(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			program := p.build(t)
			var seen [2][]string
			for i, m := range makers {
				counted := &counter{}
				addr, stop := serveOn(t, m.make(t, keepalive.ServerParameters{}), "127.0.0.1:0", &service{}, counted)
				out, err := exec.CommandContext(bounded(t), program, "call", addr).CombinedOutput()
				stop(false)
				if err != nil {
					t.Fatalf("%s: %v\n%s", m.name, err, out)
				}
				seen[i] = strings.Split(string(out), "\n")
				t.Logf("%s: %d lines, %d connections", m.name, len(seen[i]), counted.accepted.Load())
				if n := counted.accepted.Load(); n != 1 && m.name == "tarn" {
					t.Errorf("%d connections", n)
				}
			}
			for i := range max(len(seen[0]), len(seen[1])) {
				line := func(lines []string) string {
					if i < len(lines) {
						return lines[i]
					}
					return "nothing"
				}
				if line(seen[0]) != line(seen[1]) {
					t.Errorf("%s: %s\n\t%s: %s", makers[0].name, line(seen[0]), makers[1].name, line(seen[1]))
				}
			}
		})
	}
}

// TestClientsLoad has 64 callers in another language call servers that end connections after a second, and that restart. No call hangs.
// How calls fail is logged: these clients do not repeat every call whose connection is just ending.
func TestClientsLoad(t *testing.T) {
	for _, p := range programs {
		for _, m := range makers {
			for _, how := range []string{"age", "graceful restarts", "restarts"} {
				t.Run(p.name+"/"+m.name+"/"+how, func(t *testing.T) {
					age := keepalive.ServerParameters{}
					if how == "age" {
						age = keepalive.ServerParameters{MaxConnectionAge: time.Second, MaxConnectionAgeGrace: 10 * time.Second}
					}
					program := p.build(t)
					addr, stop := serve(t, m.make(t, age), "127.0.0.1:0")
					cmd := exec.CommandContext(bounded(t), program, "load", addr)
					stdin, err := cmd.StdinPipe()
					if err != nil {
						t.Fatal(err)
					}
					var out strings.Builder
					cmd.Stdout, cmd.Stderr = &out, &out
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					tick := time.NewTicker(time.Second)
					defer tick.Stop()
					for range 8 {
						<-tick.C
						if how != "age" {
							stop(how == "graceful restarts")
							_, stop = serve(t, m.make(t, age), addr)
						}
					}
					stdin.Close()
					if err := cmd.Wait(); err != nil {
						t.Error(err)
					}
					stop(false)
					t.Log(out.String())
					if strings.Contains(out.String(), "HANGS") || !strings.Contains(out.String(), "OK") {
						t.Errorf("calls ended %s", out.String())
					}
				})
			}
		}
	}
}
