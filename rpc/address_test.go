package rpc_test

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// attributed are insecure credentials that send what they know of the address.
type attributed struct {
	credentials.TransportCredentials
	to chan<- string
}

func (c attributed) Clone() credentials.TransportCredentials { return c }

func (c attributed) ClientHandshake(ctx context.Context, name string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	zone, _ := credentials.ClientHandshakeInfoFromContext(ctx).Attributes.Value("zone").(string)
	c.to <- name + " " + zone
	return c.TransportCredentials.ClientHandshake(ctx, name, nc)
}

// audience are per-RPC credentials that send the URI they are asked for.
type audience struct{}

func (audience) GetRequestMetadata(_ context.Context, uri ...string) (map[string]string, error) {
	return map[string]string{"audience": uri[0]}, nil
}
func (audience) RequireTransportSecurity() bool { return false }

// TestServerNameOfAddress: the name and the attributes that a resolver's address has reach the transport credentials, and the name is :authority and
// part of what per-RPC credentials get, unless the client has one by WithAuthority; as in grpc-go. The client used the target's name for :authority,
// and no attributes.
func TestServerNameOfAddress(t *testing.T) {
	sent := make(chan metadata.MD, 1)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		sent <- md
		return &pb.SimpleResponse{}, nil
	}})
	handshakes := make(chan string, 1)
	creds := attributed{insecure.NewCredentials(), handshakes}
	r := manual.NewBuilderWithScheme("names")
	for _, x := range []struct {
		addr            resolver.Address
		ours            []rpc.DialOption
		stock           []grpc.DialOption
		authority, zone string
	}{
		{addr: resolver.Address{Addr: addr}, authority: "target"},
		{addr: resolver.Address{Addr: addr, ServerName: "server", Attributes: attributes.New("zone", "a")}, authority: "server", zone: "a"},
		{addr: resolver.Address{Addr: addr, ServerName: "server"},
			ours: []rpc.DialOption{rpc.WithAuthority("option")}, stock: []grpc.DialOption{grpc.WithAuthority("option")}, authority: "option"},
	} {
		r.InitialState(resolver.State{Addresses: []resolver.Address{x.addr}})
		for name, cc := range map[string]grpc.ClientConnInterface{
			"tarn": dialTarn(t, "names:///target", append(x.ours, rpc.WithResolvers(r), rpc.WithTransportCredentials(creds), rpc.WithPerRPCCredentials(audience{}))...),
			"grpc-go": dialGRPC(t, "names:///target", append(x.stock, grpc.WithResolvers(r), grpc.WithTransportCredentials(creds),
				grpc.WithPerRPCCredentials(audience{}))...),
		} {
			for range 2 { // the second uses what the connection keeps for the method
				if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
					t.Fatal(name, err)
				}
				md := <-sent
				if want := []string{x.authority}; !slices.Equal(md[":authority"], want) {
					t.Errorf("%s: :authority %q, want %q", name, md[":authority"], want)
				}
				if want := []string{"https://" + x.authority + "/grpc.testing.TestService"}; !slices.Equal(md["audience"], want) {
					t.Errorf("%s: per-RPC credentials got %q, want %q", name, md["audience"], want)
				}
			}
			if got, want := <-handshakes, x.authority+" "+x.zone; got != want {
				t.Errorf("%s: transport credentials got %q, want %q", name, got, want)
			}
		}
	}
}
