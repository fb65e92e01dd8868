package rpc_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func metadataOf(ctx context.Context) (metadata.MD, bool) { return metadata.FromIncomingContext(ctx) }

func statusError(c codes.Code) error { return status.Error(c, "as the test wants it") }

// connectProxy answers CONNECT and connects every tunnel to one address.
type connectProxy struct {
	addr  string
	mu    sync.Mutex
	asked []string // address and credentials
}

func startProxy(t *testing.T, to string) *connectProxy {
	lis := listen(t)
	p := &connectProxy{addr: lis.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(t, nc, to) })
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { lis.Close() })
	return p
}

func (p *connectProxy) serve(t *testing.T, nc net.Conn, to string) {
	defer nc.Close()
	r := bufio.NewReader(nc)
	req, err := http.ReadRequest(r)
	if err != nil || req.Method != http.MethodConnect {
		t.Errorf("the proxy was sent %v, %v", req, err)
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, req.Host+" "+req.Header.Get("Proxy-Authorization"))
	p.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		t.Error(err)
		return
	}
	defer out.Close()
	if _, err := io.WriteString(nc, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(nc, out)
		nc.Close()
	}()
	io.Copy(out, r)
	out.Close()
	<-done
}

func isProxyChild() bool { return os.Getenv("TARN_PROXY_CHILD") != "" }

// runChild runs one test of this binary with additional environment variables, and returns its output.
func runChild(t *testing.T, test string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: "+test) {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// runProxyChild makes a call through the proxy, which is not used for the names in NO_PROXY, with WithNoProxy,
// for loopback addresses, with WithLocalDNSResolution for names of such addresses, and with WithContextDialer.
func runProxyChild(t *testing.T) {
	c := pb.NewTestServiceClient(dialTarn(t, "svc.invalid:443"))
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Error(err)
	}
	for _, cc := range []*rpc.ClientConn{
		dialTarn(t, "passthrough:///direct.invalid:443"),
		dialTarn(t, "passthrough:///svc.invalid:443", rpc.WithNoProxy()),
	} {
		_, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{})
		wantCode(t, err, codes.Unavailable)
	}
	addr := os.Getenv("TARN_PROXY_CHILD")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, cc := range []*rpc.ClientConn{
		dialTarn(t, addr),
		dialTarn(t, "dns://"+startDNS(t, "", "")+"/svc.test:"+port, rpc.WithLocalDNSResolution()),
		dialTarn(t, "passthrough:///svc.invalid:443", rpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			if to != "svc.invalid:443" {
				t.Errorf("the dialer was asked for %s", to)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		})),
	} {
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Errorf("%s: %v", cc.Target(), err)
		}
	}
}
