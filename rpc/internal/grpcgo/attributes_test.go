package grpcgo_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
)

// addresses is a balancer that keeps the addresses that it gets.
type addresses struct {
	balancer.Balancer
	got chan []resolver.Address
}

func (a addresses) Name() string { return "addresses_of_a_test" }

func (a addresses) Build(balancer.ClientConn, balancer.BuildOptions) balancer.Balancer { return a }

func (a addresses) UpdateClientConnState(s balancer.ClientConnState) error {
	select {
	case a.got <- s.ResolverState.Addresses:
	default:
	}
	return nil
}

func (addresses) ResolverError(error) {}
func (addresses) Close()              {}
func (addresses) ExitIdle()           {}

// TestProxyOf: what grpc-go adds to the address of a proxy can be read. It adds it to those of endpoints (gRFC A86), and where the environment
// names a proxy, which net/http reads once: the test runs itself.
func TestProxyOf(t *testing.T) {
	const inside = "TARN_PROXY_OF"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProxyOf$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1", "HTTPS_PROXY=http://user:pass@127.0.0.1:1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestProxyOf") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	b := addresses{got: make(chan []resolver.Address, 1)}
	balancer.Register(b)
	cc, err := grpc.NewClient("dns:///svc.invalid:443", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"addresses_of_a_test":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	cc.Connect()
	got := <-b.got
	if len(got) != 1 || got[0].Addr != "127.0.0.1:1" {
		t.Fatalf("the addresses are %v", got)
	}
	p, ok := grpcgo.ProxyOf(&got[0])
	if !ok || p.To != "svc.invalid:443" || p.User.String() != "user:pass" {
		t.Errorf("%+v, %v", p, ok)
	}
	other := resolver.Address{Addr: "127.0.0.1:1", Attributes: attributes.New("key", "value").WithValue(1, 2)}
	if p, ok := grpcgo.ProxyOf(&other); ok {
		t.Errorf("%+v of an address without a proxy", p)
	}
	if p, ok := grpcgo.ProxyOf(&resolver.Address{}); ok {
		t.Errorf("%+v of an address without attributes", p)
	}
}

// TestAttribute: nothing is found but a key of the type that is asked for.
func TestAttribute(t *testing.T) {
	type key string
	const pkg = "github.com/tarn-go/tarn/rpc/internal/grpcgo_test"
	a := attributes.New("key", 1).WithValue(key("k"), 2).WithValue(struct{ k key }{"k"}, 3)
	for _, test := range []struct {
		pkg, name string
		want      any
	}{{pkg, "key", 2}, {pkg, "other", nil}, {"other", "key", nil}} {
		if got := grpcgo.Attribute(a, test.pkg, test.name); got != test.want {
			t.Errorf("%s.%s: %v, want %v", test.pkg, test.name, got, test.want)
		}
	}
	if got := grpcgo.Attribute(nil, pkg, "key"); got != nil {
		t.Errorf("of no attributes: %v", got)
	}
}
