package grpcgo_test

import (
	"context"
	"net"
	"reflect"
	"slices"
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/stats"
)

// stub is a resolver builder.
type stub struct{ scheme string }

func (s *stub) Scheme() string { return s.scheme }

func (s *stub) Build(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error) {
	return nil, nil
}

// services is a grpc.ServiceRegistrar that keeps what is registered.
type services struct{ impl any }

func (s *services) RegisterService(_ *grpc.ServiceDesc, impl any) { s.impl = impl }

// TestRelease: the release of grpc-go has everything that the package depends on.
func TestRelease(t *testing.T) {
	t.Logf("grpc-go %s", grpc.Version)
	t.Run("keys of contexts", func(t *testing.T) {
		all := []any{grpcgo.MetadataKey, grpcgo.PeerKey, grpcgo.StreamKey}
		for i, k := range all {
			if k == nil || slices.Index(all, k) != i {
				t.Errorf("the keys of metadata, peer and stream are %v: a function does not ask for its key, or asks for another first", all)
			}
		}
		ctx := peer.NewContext(metadata.NewIncomingContext(t.Context(), metadata.Pairs("a", "b")), &peer.Peer{})
		if ctx.Value(grpcgo.MetadataKey) == nil {
			t.Error("no metadata under its key")
		}
		if p, ok := ctx.Value(grpcgo.PeerKey).(*peer.Peer); !ok {
			t.Errorf("a peer in a context is %T", p)
		}
	})
	t.Run("a connection's key", func(t *testing.T) {
		found := false
		s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			found = holds(reflect.ValueOf(ctx))
			return next(ctx, req)
		}))
		healthpb.RegisterHealthServer(s, health.NewServer())
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(lis)
		defer s.Stop()
		cc, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		if _, err := healthpb.NewHealthClient(cc).Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
		if !found {
			t.Error("the context of a call at grpc-go's server has no value under a key that IsConnectionKey knows")
		}
	})
	t.Run("AcceptCompressors", func(t *testing.T) {
		names, ok := grpcgo.AcceptedCompressors(experimental.AcceptCompressors(gzip.Name))
		if !ok || !slices.Equal(names, []string{gzip.Name}) {
			t.Errorf("the names of experimental.AcceptCompressors are %q, %v: its type has another name or field", names, ok)
		}
		if _, ok := grpcgo.AcceptedCompressors(grpc.WaitForReady(true)); ok || !grpcgo.IsOption(grpc.WaitForReady(true)) {
			t.Error("WaitForReady is taken for another option")
		}
	})
	t.Run("resolvers of a ClientConn", func(t *testing.T) {
		mine := &stub{"mine"}
		cc, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithResolvers(manual.NewBuilderWithScheme("other"), mine))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		found, readable := grpcgo.Resolvers[stub](cc)
		if !readable || !slices.Equal(found, []grpcgo.Pointer[stub]{grpcgo.PointerTo(mine)}) {
			t.Errorf("the resolvers are %v, readable %v: ClientConn.dopts.resolvers is something else", found, readable)
		}
	})
	t.Run("parsed service config", func(t *testing.T) {
		const text = `{"loadBalancingConfig":[{"round_robin":{}}]}`
		parsed := make(chan *serviceconfig.ParseResult, 1)
		b := manual.NewBuilderWithScheme("parsing")
		b.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
			parsed <- cc.ParseServiceConfig(text)
		}
		cc, err := grpc.NewClient("parsing:///x", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(b))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		cc.Connect()
		r := <-parsed
		//lint:ignore SA1019 grpc-go's parser still returns it
		c, ok := r.Config.(*grpc.ServiceConfig)
		if !ok {
			t.Fatalf("grpc-go's parser returns a %T, %v", r.Config, r.Err)
		}
		if got, ok := grpcgo.ServiceConfigJSON(c); !ok || got != text {
			t.Errorf("the JSON of a parsed service config is %q, %v: ServiceConfig.rawJSONString is something else", got, ok)
		}
	})
	t.Run("authority in statistics", func(t *testing.T) {
		h := new(stats.OutHeader)
		grpcgo.SetAuthority(h, "name")
		f := reflect.ValueOf(h).Elem().FieldByName("Authority")
		if f.IsValid() && (f.Kind() != reflect.String || f.String() != "name") {
			t.Errorf("OutHeader.Authority is %v", f)
		}
	})
	t.Run("channelz service", func(t *testing.T) {
		var s services
		channelz.RegisterChannelzServiceToServer(&s)
		if !grpcgo.IsChannelzService(s.impl) || grpcgo.IsChannelzService(health.NewServer()) {
			t.Errorf("grpc-go's channelz service, a %T, is not known", s.impl)
		}
	})
	t.Run("recorder of metrics", func(t *testing.T) {
		r, err := grpcgo.Recorder(nil)
		if err != nil || r == nil {
			t.Errorf("recorder %v, %v: a ClientConn gives its balancer none", r, err)
		}
	})
}

// holds reports whether a chain of contexts has a connection's key.
func holds(ctx reflect.Value) bool {
	for ctx.IsValid() {
		switch ctx.Kind() {
		case reflect.Interface, reflect.Pointer:
			ctx = ctx.Elem()
			continue
		case reflect.Struct:
		default:
			return false
		}
		if k := ctx.FieldByName("key"); k.IsValid() && k.Kind() == reflect.Interface && k.Elem().IsValid() {
			if key := k.Elem(); key.Type().Name() == "connectionKey" && grpcgo.IsConnectionKey(reflect.Zero(key.Type()).Interface()) {
				return true
			}
		}
		parent := ctx.FieldByName("Context")
		for i := 0; !parent.IsValid() && i < ctx.NumField(); i++ {
			if f := ctx.Field(i); f.Kind() == reflect.Struct && f.FieldByName("Context").IsValid() {
				parent = f.FieldByName("Context")
			}
		}
		ctx = parent
	}
	return false
}
