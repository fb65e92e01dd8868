package xds

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// The types as grpc-go has them.
type (
	info struct {
		Context           context.Context
		Method, Authority string
	}
	policy struct {
		MaxAttempts                int
		InitialBackoff, MaxBackoff time.Duration
		BackoffMultiplier          float64
		RetryableStatusCodes       map[codes.Code]bool
	}
	settings struct {
		WaitForReady            *bool
		Timeout                 *time.Duration
		MaxReqSize, MaxRespSize *int
		RetryPolicy             *policy
	}
	config struct {
		Context      context.Context
		MethodConfig settings
		OnCommitted  func()
		Interceptor  any
	}
)

// The same with a difference each.
type (
	infoWithoutMethod struct{ Context context.Context }
	configWithMore    struct {
		config
		Context      context.Context
		MethodConfig settings
		OnCommitted  func()
		Interceptor  any
	}
	configOfOtherType struct {
		Context      context.Context
		MethodConfig settings
		OnCommitted  func(error)
		Interceptor  any
	}
	configWithoutSettings struct {
		Context      context.Context
		MethodConfig int
		OnCommitted  func()
		Interceptor  any
	}
)

// Types that are not those of the versions that are known are refused, with what differs.
func TestLayout(t *testing.T) {
	for _, test := range []struct {
		name string
		f    any
		want string // of the error; "": none
	}{
		{"known", func(info) (*config, error) { return nil, nil }, ""},
		{"more arguments", func(info, int) (*config, error) { return nil, nil }, "SelectConfig is a"},
		{"no pointer", func(info) (config, error) { return config{}, nil }, "SelectConfig is a"},
		{"a field less", func(infoWithoutMethod) (*config, error) { return nil, nil }, "has no field Method"},
		{"a field more", func(info) (*configWithMore, error) { return nil, nil }, "5 fields, of which 4 are known"},
		{"another type", func(info) (*configOfOtherType, error) { return nil, nil }, "OnCommitted is a func(error)"},
		{"no settings", func(info) (*configWithoutSettings, error) { return nil, nil }, "int is not a struct"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := layoutOf(reflect.TypeOf(test.f))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// chosen is a selector with grpc-go's types.
type chosen struct{ config config }

func (c *chosen) SelectConfig(i info) (*config, error) {
	if i.Method == "/refused" {
		return nil, status.Error(codes.Unavailable, i.Authority)
	}
	return &c.config, nil
}

// filters are an interceptor as grpc-go has it.
type filters struct{ list []int }

func (f *filters) NewStream(_ context.Context, i info, next func(context.Context, ...grpc.CallOption) (grpc.ClientStream, error), opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if i.Context != nil || i.Method != "/m" {
		return nil, status.Error(codes.Internal, "a wrong description")
	}
	return next(context.WithValue(context.Background(), f, len(opts)), opts...)
}

// What grpc-go's selector decides arrives.
func TestSelector(t *testing.T) {
	timeout, committed := time.Second, 0
	f := &filters{list: []int{1}}
	of := &chosen{config{context.Background(), settings{Timeout: &timeout, RetryPolicy: &policy{3, 1, 2, 1.5, map[codes.Code]bool{codes.Aborted: true, codes.OK: false}}},
		func() { committed++ }, f}}
	s, err := newSelector(of)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.SelectConfig(rpc.CallInfo{Context: t.Context(), Method: "/m", Authority: "a"})
	if err != nil {
		t.Fatal(err)
	}
	want := &rpc.RetryPolicy{MaxAttempts: 3, InitialBackoff: 1, MaxBackoff: 2, BackoffMultiplier: 1.5, RetryableStatusCodes: []codes.Code{codes.Aborted}}
	if got.Committed(); got.Context != of.config.Context || got.Timeout != timeout || committed != 1 || !reflect.DeepEqual(got.Retry, want) || got.Intercept == nil {
		t.Errorf("%+v", got)
	}
	_, err = got.Intercept(t.Context(), func(ctx context.Context, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if len(opts) != 1 || ctx.Value(f) != 1 {
			t.Errorf("%d options", len(opts))
		}
		return nil, nil
	}, grpc.EmptyCallOption{})
	if err != nil {
		t.Error(err)
	}
	_, err = s.SelectConfig(rpc.CallInfo{Method: "/refused", Authority: "a"})
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "a" {
		t.Error(err)
	}
	f.list = nil // the filter list of a route that has none
	if got, err = s.SelectConfig(rpc.CallInfo{Method: "/m"}); err != nil || got.Intercept != nil {
		t.Errorf("%+v, %v", got, err)
	}
	of.config.Interceptor = 1
	if _, err = s.SelectConfig(rpc.CallInfo{Method: "/m"}); status.Code(err) != codes.Unavailable || committed != 2 {
		t.Errorf("an unknown interceptor: %v", err)
	}
}

// unknown is a resolver with states of a grpc-go whose selector is not found.
type unknown struct{}

func (unknown) Scheme() string { return "unknown" }

func (unknown) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	c := &client{ClientConn: cc}
	s := resolver.State{ServiceConfig: c.ParseServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`), Attributes: attributes.New("key", 1)}
	if err := c.UpdateState(s); err == nil {
		return nil, status.Error(codes.Internal, "no error")
	}
	return idle{}, nil
}

type idle struct{}

func (idle) ResolveNow(resolver.ResolveNowOptions) {}
func (idle) Close()                                {}

// Each call of a client whose grpc-go is not known fails, and its error names the version.
func TestRefusal(t *testing.T) {
	cc, err := rpc.NewClient("unknown:///x", rpc.WithResolvers(unknown{}), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	err = cc.Invoke(t.Context(), "/service/method", nil, nil)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "grpc-go "+grpc.Version) {
		t.Error(err)
	}
}
