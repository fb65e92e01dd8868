package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// nginx forwards HTTP/1.1 to backend, buffering nothing, and returns its address.
func nginx(t *testing.T, backend string) string {
	t.Helper()
	leftout.Need(t, "nginx", "nginx")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	conf := fmt.Sprintf(`
daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log warn;
events { worker_connections 256; }
http {
	access_log off; client_max_body_size 100m;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen %[2]s; location / {
		proxy_pass http://%[3]s; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off; proxy_set_header Host $host;
	} }
}`, dir, addr, backend)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nginx", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx: %s%s", out.String(), b)
		}
	})
	for end := time.Now().Add(20 * time.Second); ; {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
			return addr
		}
		if time.Now().After(end) {
			t.Fatalf("nginx does not listen: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Behind a proxy that speaks HTTP/1.1 alone a gRPC client does not get through, and one of the other
// protocols does.
func TestClientThroughNginx(t *testing.T) {
	pool := tarntest.NewPool(t)
	s := rpc.NewServer(rpc.Pool(pool))
	pb.RegisterTestServiceServer(s, service{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	addr := nginx(t, lis.Addr().String())
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		t.Run(p.String(), func(t *testing.T) {
			cc, err := rpc.NewClient(addr, rpc.WithPool(pool), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithProtocol(p))
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			c := pb.NewTestServiceClient(cc)
			if p == rpc.GRPC {
				if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err == nil {
					t.Error("gRPC passes through nginx's proxy_pass")
				}
				return
			}
			for _, size := range []int{0, 1000, 1000000} {
				out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}})
				if err != nil || len(out.GetPayload().GetBody()) != size {
					t.Errorf("%d bytes: %v", size, err)
				}
			}
			_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 9, Message: "no"}})
			if st := status.Convert(err); st.Code() != codes.FailedPrecondition || st.Message() != "no" || len(st.Details()) != 1 {
				t.Errorf("%v", err)
			}
			in := &pb.StreamingOutputCallRequest{}
			for range 20 {
				in.ResponseParameters = append(in.ResponseParameters, &pb.ResponseParameters{Size: 30000})
			}
			down, err := c.StreamingOutputCall(ctxFor(t), in)
			for n := 0; err == nil; n++ {
				if _, err = down.Recv(); errors.Is(err, io.EOF) && n != 20 {
					t.Errorf("%d messages", n)
				}
			}
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			up, err := c.StreamingInputCall(ctxFor(t))
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if err := up.Send(&pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: make([]byte, 30000)}}); err != nil {
					t.Fatal(err)
				}
			}
			if sum, err := up.CloseAndRecv(); err != nil || sum.AggregatedPayloadSize != 600000 {
				t.Errorf("%v, %v", sum, err)
			}
		})
	}
}
