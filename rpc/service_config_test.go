package rpc_test

import (
	"fmt"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// TestDurationsOfServiceConfigs: what grpc-go's parser takes.
func TestDurationsOfServiceConfigs(t *testing.T) {
	for text, valid := range map[string]bool{
		"1s": true, "1.5s": true, ".01s": true, "1.s": true, "0.000000001s": true, "0s": true,
		".s": false, "s": false, "": false, "1": false, "1.2.3s": false, "1m": false, "+1s": false, "0.0000000001s": false,
	} {
		cc, err := rpc.NewClient("127.0.0.1:1", rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithDefaultServiceConfig(fmt.Sprintf(`{"methodConfig":[{"name":[{}],"timeout":%q}]}`, text)))
		if err == nil {
			cc.Close()
		}
		if (err == nil) != valid {
			t.Errorf("a timeout of %q: %v", text, err)
		}
	}
}

// TestTimeoutsOfServiceConfigs: a timeout of nothing ends calls before they are sent, as in grpc-go.
func TestTimeoutsOfServiceConfigs(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for text, want := range map[string]codes.Code{"0s": codes.DeadlineExceeded, "100s": codes.OK} {
		config := fmt.Sprintf(`{"methodConfig":[{"name":[{}],"timeout":%q}]}`, text)
		for name, cc := range map[string]grpc.ClientConnInterface{
			"tarn":    dialTarn(t, addr, rpc.WithDefaultServiceConfig(config)),
			"grpc-go": dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config)),
		} {
			if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); status.Code(err) != want {
				t.Errorf("%s, a timeout of %q: %v", name, text, err)
			}
		}
	}
}

// TestUnknownPolicyOfAResolver: a resolver's loadBalancingPolicy that no balancer is registered for means pick_first, as in grpc-go; an
// unknown loadBalancingConfig is an error.
func TestUnknownPolicyOfAResolver(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for config, want := range map[string]codes.Code{
		`{"loadBalancingPolicy":"grpclb"}`:                codes.OK,
		`{"loadBalancingConfig":[{"not_registered":{}}]}`: codes.Unavailable,
	} {
		names := manual.NewBuilderWithScheme("policy")
		names.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
			cc.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: addr}}, ServiceConfig: cc.ParseServiceConfig(config)})
		}
		for name, cc := range map[string]grpc.ClientConnInterface{
			"tarn":    dialTarn(t, "policy:///x", rpc.WithResolvers(names)),
			"grpc-go": dialGRPC(t, "policy:///x", grpc.WithResolvers(names)),
		} {
			if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); status.Code(err) != want {
				t.Errorf("%s, %s: %v", name, config, err)
			}
		}
	}
}
