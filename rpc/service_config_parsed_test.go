package rpc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"
)

// configured is a round_robin that needs its own settings.
type configured struct{ balancer.Builder }

type configuredSettings struct {
	serviceconfig.LoadBalancingConfig `json:"-"`
	Wanted                            int
}

type configuredBalancer struct{ balancer.Balancer }

func (configured) Name() string { return "configured_test" }

func (configured) ParseConfig(js json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	c := new(configuredSettings)
	return c, json.Unmarshal(js, c)
}

func (c configured) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	return configuredBalancer{c.Builder.Build(cc, o)}
}

func (b configuredBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	if c, ok := s.BalancerConfig.(*configuredSettings); !ok || c.Wanted != 7 {
		return errors.New("the settings are not those of the service config")
	}
	s.BalancerConfig = nil
	return b.Balancer.UpdateClientConnState(s)
}

// parserOfGRPC returns grpc-go's own parser of service configs.
func parserOfGRPC(t *testing.T) func(string) *serviceconfig.ParseResult {
	r := manual.NewBuilderWithScheme("parser")
	built := make(chan resolver.ClientConn, 1)
	r.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) { built <- cc }
	dialGRPC(t, "parser:///x", grpc.WithResolvers(r)).Connect()
	return (<-built).ParseServiceConfig
}

// TestServiceConfigParsedByGRPC: a resolver may return a config that grpc-go's parser has made, for instance before it had a client.
func TestServiceConfigParsedByGRPC(t *testing.T) {
	balancer.Register(configured{balancer.Get(roundrobin.Name)})
	parse := parserOfGRPC(t)
	bs := startBackends(t, 2)
	for _, c := range []struct {
		name, json   string
		empty, unary codes.Code
		used         int // of two backends
	}{
		{"methods and a balancer", `{"loadBalancingPolicy":"round_robin","methodConfig":[{"name":[{"service":"grpc.testing.TestService","method":"EmptyCall"}],"timeout":"0s"}]}`,
			codes.DeadlineExceeded, codes.OK, 2},
		{"a balancer with settings", `{"loadBalancingConfig":[{"configured_test":{"wanted":7}}]}`, codes.OK, codes.OK, 2},
		{"nothing", `{}`, codes.OK, codes.OK, 1},
		{"a field of a newer version", `{"newer":1}`, codes.OK, codes.OK, 1},
		{"malformed", `{"methodConfig":7}`, codes.Unavailable, codes.Unavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := manual.NewBuilderWithScheme("parsed")
			s := stateOf(bs...)
			s.ServiceConfig = parse(c.json)
			r.InitialState(s)
			for name, cc := range map[string]grpc.ClientConnInterface{
				"tarn":    dialTarn(t, "parsed:///x", rpc.WithResolvers(r)),
				"grpc-go": dialGRPC(t, "parsed:///x", grpc.WithResolvers(r)),
			} {
				client := pb.NewTestServiceClient(cc)
				if _, err := client.EmptyCall(ctxFor(t), &pb.Empty{}); status.Code(err) != c.empty {
					t.Errorf("%s, EmptyCall: %v, want %v", name, err, c.empty)
				}
				ctx := ctxFor(t)
				called := func() bool {
					_, err := client.UnaryCall(ctx, &pb.SimpleRequest{})
					if status.Code(err) != c.unary {
						t.Errorf("%s, UnaryCall: %v, want %v", name, err, c.unary)
						return false
					}
					return true
				}
				for _, b := range bs {
					b.hits.Store(0)
				}
				used := func() (n int) {
					for _, b := range bs {
						if b.hits.Load() > 0 {
							n++
						}
					}
					return n
				}
				for called() && used() < c.used { // the second connection may come later
				}
				if n := used(); n != c.used {
					t.Errorf("%s used %d backends, want %d", name, n, c.used)
				}
			}
		})
	}
}

// TestServiceConfigOfUnknownOrigin: calls fail when a resolver's config has been made by no parser, or by one of other packages.
func TestServiceConfigOfUnknownOrigin(t *testing.T) {
	b := startBackend(t)
	for name, config := range map[string]serviceconfig.Config{
		//lint:ignore SA1019 resolvers may return it
		"made without a parser": &grpc.ServiceConfig{},
		//lint:ignore SA1019 resolvers may return it
		"nil pointer":        (*grpc.ServiceConfig)(nil),
		"of another package": struct{ serviceconfig.Config }{},
		"none":               nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := manual.NewBuilderWithScheme("unparsed")
			s := stateOf(b)
			s.ServiceConfig = &serviceconfig.ParseResult{Config: config}
			r.InitialState(s)
			_, err := pb.NewTestServiceClient(dialTarn(t, "unparsed:///x", rpc.WithResolvers(r))).EmptyCall(ctxFor(t), &pb.Empty{})
			wantCode(t, err, codes.Unavailable)
			if !strings.Contains(err.Error(), "was not made by ParseServiceConfig") {
				t.Error(err)
			}
		})
	}
}
