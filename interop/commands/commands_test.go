package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

type service struct {
	testpb.UnimplementedTestServiceServer
}

func (service) EmptyCall(ctx context.Context, _ *testpb.Empty) (*testpb.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	grpc.SetHeader(ctx, metadata.MD{"x-echo": md["x-echo"]})
	grpc.SetTrailer(ctx, metadata.MD{"x-echo-bin": md["x-echo-bin"]})
	if md["x-hang"] != nil {
		<-ctx.Done()
	}
	return &testpb.Empty{}, ctx.Err()
}

func (service) UnaryCall(_ context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if s := in.ResponseStatus; s != nil {
		st, err := status.New(codes.Code(s.Code), s.Message).WithDetails(durationpb.New(time.Minute))
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	return &testpb.SimpleResponse{Username: "u", Payload: &testpb.Payload{Body: bytes.Repeat([]byte("x"), int(in.ResponseSize))}}, nil
}

func (service) FullDuplexCall(s grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	for {
		in, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&testpb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

type server interface {
	reflection.GRPCServer
	Serve(net.Listener) error
	Stop()
}

var makers = []struct {
	name string
	make func(t *testing.T, creds credentials.TransportCredentials) server
}{
	{"tarn", func(t *testing.T, creds credentials.TransportCredentials) server {
		return rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.Creds(creds))
	}},
	{"grpc-go", func(_ *testing.T, creds credentials.TransportCredentials) server {
		return grpc.NewServer(grpc.WaitForHandlers(true), grpc.Creds(creds))
	}},
}

// serve runs the test service, health and reflection until the test ends.
func serve(t *testing.T, s server) string {
	t.Helper()
	testpb.RegisterTestServiceServer(s, service{})
	h := health.NewServer()
	h.SetServingStatus("resting", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(s, h)
	reflection.Register(s)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

// tool builds a tool that go.mod names. go tool would compile what it imports once more, since it does not use GOFLAGS.
func tool(t *testing.T, path string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tool")
	cmd := exec.Command("go", "build", "-o", program, path)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// outcome is what a program prints and its exit status.
func outcome(t *testing.T, program string, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return fmt.Sprintf("exit %d\n%s\n%s", cmd.ProcessState.ExitCode(), out.String(), complaints.String())
}

// secured is a kind of connection, with the arguments for it.
type secured struct {
	name  string
	creds credentials.TransportCredentials
	grpcurl, probe,
	ghz []string
}

func kinds(t *testing.T) []secured {
	cert, key, _ := testcert.Files(t)
	creds, err := credentials.NewServerTLSFromFile(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return []secured{
		{"plain", insecure.NewCredentials(), []string{"-plaintext"}, nil, []string{"--insecure"}},
		{"tls", creds, []string{"-cacert", cert, "-servername", testcert.Name}, []string{"-tls", "-tls-ca-cert", cert, "-tls-server-name", testcert.Name},
			[]string{"--cacert", cert, "--cname", testcert.Name}},
	}
}

// beside runs f with a server of each implementation and compares what it returns.
func beside(t *testing.T, k secured, f func(addr string) []string) {
	t.Helper()
	var seen [2][]string
	for i, m := range makers {
		addr := serve(t, m.make(t, k.creds))
		for _, s := range f(addr) {
			seen[i] = append(seen[i], strings.ReplaceAll(s, addr, "ADDRESS"))
		}
	}
	for i := range seen[0] {
		if seen[0][i] != seen[1][i] {
			t.Errorf("%s:\n%.2000s\n%s:\n%.2000s", makers[0].name, seen[0][i], makers[1].name, seen[1][i])
		}
	}
}

func TestGrpcurl(t *testing.T) {
	program := tool(t, "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			beside(t, k, func(addr string) []string {
				var all []string
				for _, c := range []struct {
					stdin string
					want  int // exit status: 64 and the status code
					args  []string
				}{
					{"", 0, []string{addr, "list"}},
					{"", 0, []string{addr, "list", "grpc.testing.TestService"}},
					{"", 0, []string{addr, "describe", "grpc.testing.SimpleRequest"}},
					{"", 0, []string{"-d", `{"responseSize":5}`, addr, "grpc.testing.TestService/UnaryCall"}},
					{"", 0, []string{"-max-msg-sz", "8000000", "-d", `response_size: 3000000`, "-format", "text", addr, "grpc.testing.TestService.UnaryCall"}},
					{"", 69, []string{"-format-error", "-d", `{"responseStatus":{"code":5,"message":"é not\nthere"}}`, addr, "grpc.testing.TestService/UnaryCall"}},
					{"", 0, []string{"-v", "-H", "x-echo: one", "-H", "x-echo-bin: AP8=", addr, "grpc.testing.TestService/EmptyCall"}},
					{`{"payload":{"body":"YQ=="}}{"payload":{"body":"YmI="}}{}`, 0, []string{"-d", "@", addr, "grpc.testing.TestService/FullDuplexCall"}},
					{"", 76, []string{addr, "grpc.testing.TestService/UnimplementedCall"}},
					{"", 68, []string{"-max-time", "0.2", "-H", "x-hang: 1", addr, "grpc.testing.TestService/EmptyCall"}},
					{"", 0, []string{addr, "grpc.health.v1.Health/Check"}},
				} {
					got := outcome(t, program, c.stdin, slices.Concat(k.grpcurl, c.args)...)
					if !strings.HasPrefix(got, fmt.Sprintf("exit %d\n", c.want)) {
						t.Errorf("%q: %.2000s", c.args, got)
					}
					if c.want == 68 { // the message is the client's, or of the reset that came first
						got = ""
					}
					lines := strings.Split(got, "\n")
					slices.Sort(lines) // grpcurl prints metadata in the order of a map
					all = append(all, strings.Join(lines, "\n"))
				}
				return all
			})
		})
	}
}

func TestHealthProbe(t *testing.T) {
	program := tool(t, "github.com/grpc-ecosystem/grpc-health-probe")
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			beside(t, k, func(addr string) []string {
				var all []string
				for _, c := range []struct {
					want int
					args []string
				}{{0, nil}, {4, []string{"-service", "resting"}}, {3, []string{"-service", "unknown"}}, {0, []string{"-gzip"}}} {
					got := outcome(t, program, "", slices.Concat([]string{"-addr", addr}, k.probe, c.args)...)
					if !strings.HasPrefix(got, fmt.Sprintf("exit %d\n", c.want)) {
						t.Errorf("%q: %s", c.args, got)
					}
					head, _, _ := strings.Cut(got, "\n")
					all = append(all, head)
				}
				return all
			})
		})
	}
}

// TestGhz has ghz call, unary and in streams. It is not a tool of go.mod, because it requires a linter's modules; TARN_LONG=1 installs it.
func TestGhz(t *testing.T) {
	if os.Getenv("TARN_LONG") == "" {
		leftout.Note(t, "ghz is installed with TARN_LONG=1 only")
		t.Skip()
	}
	dir := t.TempDir()
	install := exec.Command("go", "install", "github.com/bojand/ghz/cmd/ghz@v0.93.0")
	install.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		leftout.Skip(t, fmt.Sprintf("ghz cannot be installed: %v %s", err, out))
	}
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			beside(t, k, func(addr string) []string {
				var all []string
				for _, args := range [][]string{
					{"--call", "grpc.testing.TestService/UnaryCall", "-d", `{"responseSize":100}`, "-n", "20000", "-c", "50", "--connections", "4"},
					{"--call", "grpc.testing.TestService/UnaryCall", "-d", `{"responseSize":100000}`, "-n", "1000", "-c", "50"},
					{"--call", "grpc.testing.TestService/UnaryCall", "-d", `{"responseStatus":{"code":9,"message":"no"}}`, "-n", "1000", "-c", "20"},
					{"--call", "grpc.testing.TestService/FullDuplexCall", "-d", `[{"payload":{"body":"YQ=="}},{},{}]`, "-n", "2000", "-c", "50"},
					{"--call", "grpc.testing.TestService/EmptyCall", "-m", `{"x-hang":"1"}`, "-t", "100ms", "-n", "500", "-c", "50"},
				} {
					got := outcome(t, filepath.Join(dir, "ghz"), "", slices.Concat(k.ghz, args, []string{"-O", "json", addr})...)
					var report struct {
						Count  int            `json:"count"`
						Codes  map[string]int `json:"statusCodeDistribution"`
						Errors map[string]int `json:"errorDistribution"`
					}
					_, text, _ := strings.Cut(got, "\n")
					if err := json.NewDecoder(strings.NewReader(text)).Decode(&report); err != nil {
						t.Fatalf("%v\n%.2000s", err, got)
					}
					t.Logf("%s %v: %d calls, %v", addr, args, report.Count, report.Codes)
					if report.Codes["DeadlineExceeded"] > 0 {
						report.Errors = nil // messages of the client, and of the server's reset where that came first
					}
					all = append(all, fmt.Sprint(report.Count, report.Codes, report.Errors))
				}
				return all
			})
		})
	}
}
